"""What the product's speed is measured by: `make bench`. Never a part of the tests."""
