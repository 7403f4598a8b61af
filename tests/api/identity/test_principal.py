"""What each role allows, and what none does."""

import pytest

from elfmesh.api.identity.principal import EVERY_NAMESPACE, LOOPBACK_READER, Principal, Role


def somebody(*roles: Role, namespaces: tuple[str, ...] = ()) -> Principal:
    return Principal("somebody", frozenset(roles), frozenset(namespaces))


@pytest.mark.parametrize(
    ("who", "read", "submit_shop", "submit_other", "operate", "join"),
    [
        (somebody(), False, False, False, False, False),
        (LOOPBACK_READER, True, False, False, False, False),
        (somebody(Role.AGENT), False, False, False, False, True),
        (somebody(Role.SUBMITTER, namespaces=("shop",)), True, True, False, False, False),
        (somebody(Role.SUBMITTER), True, False, False, False, False),
        (somebody(Role.SUBMITTER, namespaces=(EVERY_NAMESPACE,)), True, True, True, False, False),
        (somebody(Role.READER, namespaces=("shop",)), True, False, False, False, False),
        (somebody(Role.OPERATOR), True, True, True, True, False),
    ],
)
def test_what_a_role_allows(
    who: Principal, read: bool, submit_shop: bool, submit_other: bool, operate: bool, join: bool
) -> None:
    said = (
        who.may_read(),
        who.may_submit("shop"),
        who.may_submit("other"),
        who.may_operate(),
        who.may_join(),
    )
    assert said == (read, submit_shop, submit_other, operate, join)
