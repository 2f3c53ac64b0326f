"""Everything that the package has for programs has a docstring: `help(rackmem)` is its reference."""

import inspect

import rackmem


def members(owner):
    """The public methods and properties that a class defines itself."""
    for name, value in vars(owner).items():
        is_ours = callable(value) or isinstance(value, (property, classmethod, staticmethod))
        if is_ours and not name.startswith("_"):
            yield f"{owner.__name__}.{name}", getattr(owner, name)


def undocumented(names):
    for name, value in names:
        if not inspect.getdoc(value):
            yield name
        if inspect.isclass(value):
            if not value.__doc__:
                yield f"{name} (has that of its base)"
            yield from undocumented(members(value))


def test_every_public_name_has_a_docstring():
    names = [(name, getattr(rackmem, name)) for name in rackmem.__all__ if name != "__version__"]
    assert len(names) > 10
    assert list(undocumented(names)) == []


def test_what_has_none_is_found():
    class Bad:
        """Documented."""

        def missing(self):
            pass

        @property
        def nothing(self):
            return 1

    class Derived(Bad):
        pass

    found = list(undocumented([("Bad", Bad), ("Derived", Derived)]))
    assert found == ["Bad.missing", "Bad.nothing", "Derived (has that of its base)"]
