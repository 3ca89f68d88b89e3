"""What classes declare: read from Java sources and from TypeScript's declarations alike, and comparable."""

from __future__ import annotations

from dataclasses import dataclass, field

ANY = "any"


@dataclass(frozen=True)
class Type:
    """A type without its arguments: `name` is number, boolean, string, void, any, or a class's own name."""

    name: str
    nullable: bool = False
    arrays: int = 0

    def fits(self, other: Type) -> bool:
        """Return whether two types may be one, as far as both languages tell."""
        if self.nullable != other.nullable:
            return False
        if ANY in (self.name, other.name):
            return True
        return (self.name, self.arrays) == (other.name, other.arrays)

    def __str__(self) -> str:
        return self.name + "[]" * self.arrays + (" or null" if self.nullable else "")


@dataclass(frozen=True)
class Member:
    """A method, a constructor (`<init>`) or a field, which has no `parameters`; a constant has a `value`."""

    name: str
    line: int
    result: Type
    parameters: tuple[Type, ...] | None = None
    static: bool = False
    value: str | None = None
    since: int = 0
    deprecated: int = 0

    def __str__(self) -> str:
        if self.parameters is None:
            return f"{self.name}: {self.result}" + (f" = {self.value}" if self.value is not None else "")
        static = "static " if self.static else ""
        return f"{static}{self.name}({', '.join(map(str, self.parameters))}): {self.result}"


@dataclass
class Class:
    """A class or an interface, by its full name, such as android.os.Build.VERSION."""

    name: str
    file: str
    line: int
    interface: bool = False
    abstract: bool = False
    parent: str = "Object"
    interfaces: tuple[str, ...] = ()
    since: int = 0
    members: list[Member] = field(default_factory=list)

    def named(self, name: str) -> list[Member]:
        return [member for member in self.members if member.name == name]
