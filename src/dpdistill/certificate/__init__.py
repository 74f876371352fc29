"""The certificate: written once, checked by anybody."""
