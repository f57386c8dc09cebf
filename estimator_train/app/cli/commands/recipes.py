"""estimator_train recipes: lists the recipes."""

import click
import tabulate

from estimator_train.app.recipes import ABOUT


@click.command()
def recipes():
    """List the recipes, complete training programs to start from."""
    click.echo(tabulate.tabulate(ABOUT.items(), tablefmt="plain"))
