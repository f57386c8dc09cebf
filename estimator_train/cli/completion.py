"""What the shell offers for the value of a flag; click asks for it."""

from click.shell_completion import CompletionItem


def names(choices):
    """Completes one of `choices()`."""
    return lambda ctx, param, incomplete: [name for name in choices() if name.startswith(incomplete)]


def folders(ctx, param, incomplete):
    return [CompletionItem(incomplete, type="dir")]


def files(ctx, param, incomplete):
    return [CompletionItem(incomplete, type="file")]
