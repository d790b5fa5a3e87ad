"""The steps of the schema."""

from app.state.migrations import MIGRATIONS, TABLES, TYPES


def test_each_step_has_both_directions_and_its_tables() -> None:
    assert len({migration.name for migration in MIGRATIONS}) == len(MIGRATIONS)
    for migration in MIGRATIONS:
        for table in migration.tables:
            assert any(table in text for text in migration.up)
            assert f"DROP TABLE {table}" in migration.down
    assert len(set(TABLES)) == len(TABLES)


def test_every_type_is_known_for_both_kinds() -> None:
    assert TYPES["sqlite"].keys() == TYPES["postgres"].keys()
    for migration in MIGRATIONS:
        for text in migration.up:
            assert "{" not in text.format_map(TYPES["postgres"])
