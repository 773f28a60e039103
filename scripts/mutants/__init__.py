"""Changes places of the core, one at a time, and counts how many changes the tests find.

    python -m scripts.mutants --seed 47 --count 150 [--tier default|full|EXPRESSION] [--seconds N]

Prints how many changes were found, a table of the rooms, and each place whose change was not found.

All changes are written into one copy of the checkout, each guarded by its number (`places.py`, `switch.py`). The tests
of the tier run once without a change, to learn which tests execute which place. Then each change is switched on in a
forked process that runs only those tests, the cheapest first, until one fails (`session.py`). A test that fails
without the change, too, does not count. A place is chosen by a hash of the seed and its text, so a change of other
code does not change which places are chosen.
"""
