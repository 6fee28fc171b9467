"""Run a script on another machine under `foretrace record`, and bring its traces back.

`scripts` finds the files a script needs, `plan` says what the other machine runs, `hub` runs it as
a Hugging Face Job, `ssh` over a plain connection, and `arrivals` takes what comes back: the other
machine is not trusted.
"""
