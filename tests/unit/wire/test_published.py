from fumehood.wire.published import LOCAL, Caller


def test_the_local_caller_is_limited_by_no_scope_and_counted_as_one() -> None:
    assert Caller(principal="local", scopes=None) == LOCAL
