"""One public function a verb, in a module each; `dpdistill` exports them: the same road as the command line."""
