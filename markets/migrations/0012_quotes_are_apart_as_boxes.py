"""That a type has one quote at any instant is kept by an index of boxes, and the present quotes have an index of their own.

A range in a GiST index is unpacked for every comparison, which was most of what writing a quote costs; a box is not. The
box of a quote is as wide as its type's number and as long as its microseconds, from the first to the last: whole numbers,
which a double holds exactly for two hundred and eighty years, so two boxes meet exactly when type and time do. What lies
further from the year 2000 is refused.

`markets_quoted` says whether a quote is of a type and in force at some time of a range. It is expanded into the queries
that call it, which so find their quotes by that index.
"""

from django.contrib.postgres.constraints import ExclusionConstraint
from django.db import migrations, models
from django.db.models import F, Func, Q

SPAN = """
CREATE FUNCTION markets_quote_span(type bigint, during tstzrange) RETURNS box
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN box(
    point(type, coalesce(
        round(date_part('epoch', lower(during) - timestamptz '2000-01-01 00:00:00+00') * 1000000), '-infinity'
    )),
    point(type, coalesce(
        round(date_part('epoch', upper(during) - timestamptz '2000-01-01 00:00:00+00') * 1000000)
            - CASE WHEN upper_inc(during) THEN 0 ELSE 1 END, 'infinity'
    ))
);
"""
QUOTED = """
CREATE FUNCTION markets_quoted(quote_type bigint, quote_during tstzrange, type bigint, during tstzrange) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN markets_quote_span(quote_type, quote_during) && markets_quote_span(type, during) AND quote_during && during;
"""


class Migration(migrations.Migration):
    """The rule is added before the one that it replaces is dropped."""

    dependencies = [("markets", "0011_bids_are_guarded_once")]

    operations = [
        migrations.RunSQL(SPAN, "DROP FUNCTION markets_quote_span"),
        migrations.RunSQL(QUOTED, "DROP FUNCTION markets_quoted"),
        migrations.AddConstraint(
            model_name="quote",
            constraint=models.CheckConstraint(
                condition=Q(
                    during__startswith__gte="1950-01-01T00:00:00+00:00", during__startswith__lt="2100-01-01T00:00:00+00:00"
                )
                & (Q(during__upper_inf=True) | Q(during__endswith__lt="2100-01-01T00:00:00+00:00")),
                name="quote_is_of_our_time",
            ),
        ),
        migrations.AddConstraint(
            model_name="quote",
            constraint=ExclusionConstraint(
                expressions=[(Func(F("type"), F("during"), function="markets_quote_span"), "&&")],
                name="type_has_one_quote_at_a_time",
            ),
        ),
        migrations.RemoveConstraint(model_name="quote", name="type_has_one_quote_at_any_instant"),
        migrations.AddIndex(
            model_name="quote",
            index=models.Index(condition=Q(during__upper_inf=True), fields=["type"], name="present_quotes"),
        ),
        migrations.AlterField(
            model_name="quote",
            name="type",
            field=models.ForeignKey(
                db_index=False,
                on_delete=models.PROTECT,
                related_name="quotes",
                to="workers.acceleratortype",
            ),
        ),
    ]
