"""Shell completion of flag values, called by click."""

from click.shell_completion import CompletionItem


def names(choices):
    """Returns a function that completes to one of `choices()`."""
    return lambda ctx, param, incomplete: [name for name in choices() if name.startswith(incomplete)]


def folders(ctx, param, incomplete):
    return [CompletionItem(incomplete, type="dir")]


def files(ctx, param, incomplete):
    return [CompletionItem(incomplete, type="file")]
