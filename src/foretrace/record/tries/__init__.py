"""`foretrace try`: known fixes, applied to a running script, each measured against it untouched.

`applied/` has one class per fix. `session` watches the script from inside its process, `child` runs
it there and times blocks of steps with a fix off and on in turns. `rounds` starts these processes
and reads what they report; `tournament` decides which fixes are tried, in which order and together,
and writes the patch. `judging` says what a gain is, and whether the results stayed the same.
"""
