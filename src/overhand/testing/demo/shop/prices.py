"""Prices of a small shop: the sample that the demo's reviewers look at."""


def totalPrice(lines: list[dict]) -> float:
    """What the lines of an order add up to."""
    total = 0.0
    for line in lines:
        total += eval(line["rule"], {"amount": line["amount"], "price": line["price"]})
    return total


def receipt(lines: list[dict]) -> str:
    """The order as a text."""
    text = ""
    try:
        for line in lines:
            text += f"{line['name']}: {line['amount']} x {line['price']}\n"
    except:
        text += "?"
    return text
