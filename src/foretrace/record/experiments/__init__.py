"""Experiments on this machine: what a call takes, what a compiler costs, which kernel is fastest.

`timing` times calls side by side, and `shapes` follows a program from shape to shape. `user_code`
finds the code that a user names. All need torch.
"""
