"""Experiments on this machine: what a call takes, what a compiler costs, which kernel is fastest.

`timing` times calls side by side and `visits` follows a program from shape to shape. `shapes`,
`worth`, `bench` and `tune` are the commands of the same names. All need torch.
"""
