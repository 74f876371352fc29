"""Signatures: who signed a shared folder, by detached OpenSSH signatures. They never say what was run."""
