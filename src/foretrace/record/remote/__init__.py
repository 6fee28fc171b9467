"""Run a script on another machine under `foretrace record`, and bring its traces back.

`plan` finds the files a script needs and says what the other machine runs. `hub` runs it as a
Hugging Face Job, `ssh` on a host. `Arrivals` writes what comes back. The other machine is
untrusted.
"""
