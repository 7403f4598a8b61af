"""What each role allows, and what none does."""

import pytest

from elfmesh.api.identity.principal import EVERY_NAMESPACE, LOOPBACK_READER, Principal, Role


def some_user(*roles: Role, namespaces: tuple[str, ...] = ()) -> Principal:
    return Principal("somebody", frozenset(roles), frozenset(namespaces))


@pytest.mark.parametrize(
    ("who", "read", "submit_shop", "submit_other", "operate", "join"),
    [
        (some_user(), False, False, False, False, False),
        (LOOPBACK_READER, True, False, False, False, False),
        (some_user(Role.AGENT), False, False, False, False, True),
        (some_user(Role.SUBMITTER, namespaces=("shop",)), True, True, False, False, False),
        (some_user(Role.SUBMITTER), True, False, False, False, False),
        (some_user(Role.SUBMITTER, namespaces=(EVERY_NAMESPACE,)), True, True, True, False, False),
        (some_user(Role.READER, namespaces=("shop",)), True, False, False, False, False),
        (some_user(Role.OPERATOR), True, True, True, True, False),
    ],
)
def test_what_a_role_allows(
    who: Principal, read: bool, submit_shop: bool, submit_other: bool, operate: bool, join: bool
) -> None:
    reported = (
        who.may_read(),
        who.may_submit("shop"),
        who.may_submit("other"),
        who.may_operate(),
        who.may_join(),
    )
    assert reported == (read, submit_shop, submit_other, operate, join)
