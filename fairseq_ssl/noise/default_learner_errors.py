"""Built-in learner errors for English, the default of `LearnerNoise`.

The word counts are estimates written for this project, not counted in a corpus. Counts from a
corrected corpus (``fairseq-ssl learner-errors``) are more realistic. The distributions of the
number and the kinds of errors are from PIE's appendix A.3.
"""

from __future__ import annotations

from fairseq_ssl.noise.learner_errors import ERROR_KINDS, LearnerErrors

ADDED = """
1000 the
500 ,
450 to of
350 a in
250 is for that it
200 and on
150 with are be
120 have at .
100 an from about by
80 will has was as do so
60 I they their we you more there this
50 been had would can very also one some all
40 up out were which who being did
30 he his my our them into than
20 because but or if when what : ; - much many such other own
10 only even most too then now just both over
"""
"""Words that learners add. Each line contains a count, then the words with this count."""

OMITTED = """
1400 the
900 ,
500 a
300 to .
250 of in
180 and that for
150 is it on are
100 an with be
80 have at they as their has
60 will from was you by there
50 who I we which this been had would can
40 so do more he my some his about
30 also other were when our them one up all
20 or but if any into then should could than your its ?
10 because being these those most only while own time people " ' !
"""
"""Words that learners omit. Each line contains a count, then the words with this count."""

REPLACED = """
the a 60 this 20 an 10 their 10 these 5 that 5 our 3 its 3
a the 60 an 30 one 10 any 3 some 3
an a 80 the 20 one 5
this that 30 these 30 it 20 the 20
that which 30 this 20 what 20 who 10 the 10 it 5
these this 60 those 20 the 10 that 5
those that 40 these 30 the 15 them 5
in on 60 at 40 of 25 to 20 for 15 by 5 with 5 into 5
on in 60 at 20 of 15 to 10 about 10 for 10 with 5
at in 50 on 30 to 10 by 5 for 5
to for 30 in 20 of 15 on 10 with 10 at 10 too 10
of in 30 for 25 from 15 on 10 about 10 to 10 's 5
for to 40 of 25 in 15 on 5 about 5 with 5
with of 15 by 15 to 15 in 10 for 5 from 5
from of 25 by 10 in 10 to 10 for 5 since 5
by with 20 from 15 in 15 for 10 of 5
about of 20 on 15 for 10 to 5
into in 40 to 20
during in 30 at 5 for 5
since from 20 for 15
as like 20 such 5 for 5
like as 20 such 5
than then 30 that 10 to 5
then than 30 so 5
and or 20 with 5 but 5 also 5
or and 30 nor 5
but and 15 however 5
because since 10 as 5 for 5
which that 30 what 15 who 10 witch 2
who that 25 which 25 whom 5
what which 20 that 15 how 5
where that 10 which 10 when 5 were 5
when if 10 while 10 where 5
if when 10 whether 5
whether if 15 weather 10
it this 15 they 10 them 5 he 3
its it's 30 their 15 his 5 the 5
their there 30 they 15 his 10 the 10 theirs 5 our 5
there their 25 it 10 they 10
they it 15 we 10 their 5 there 5
them it 20 they 10 him 5 themselves 5
he she 10 they 5 him 3 it 3
him he 10 them 5
his their 10 her 10 he 5 him 5
we you 10 they 10 us 5
us we 10 our 5
our we 5 us 5 their 5 the 5
you we 10 your 5 they 5
your you 20 you're 10 our 5
my me 10 mine 5 the 5
I i 60 me 3 we 3
many much 40 a 5 more 5 most 5
much many 40 more 10 very 5
more much 10 most 10 many 5
most more 15 almost 10 many 5
few little 15 less 5 some 5
little few 15 small 5
fewer less 20 few 5
less fewer 10 lesser 5 little 5
some any 15 a 10 several 5
any some 15 no 5 every 5
other another 20 others 20 the 5
others other 30 another 5
another other 20 an 5
every each 10 all 10
each every 15 all 5
all every 15 whole 5
people person 10 peoples 10 men 5
good well 15 better 5 best 5
well good 25 better 5
very much 10 so 10 too 5
too to 15 very 10 also 5
also too 10 as 5
so such 10 very 5 therefore 5
such so 10 this 5
only just 10 alone 5
no not 20 any 5
not no 20 n't 5
however but 15 although 5
although despite 5 however 5 but 5
lose loose 20 miss 5
loose lose 20
advice advise 25 advices 10
advise advice 20
effect affect 25 influence 5
affect effect 25 influence 5
quite quiet 20
quiet quite 10
information informations 25
children childs 10 childrens 10 child 5
everyone everybody 5 every 5
everyday every 5
, . 30 ; 10 and 10
. , 30 ; 5 ! 3
? . 30
; , 20
: , 10 ; 5
"""
"""Words that learners replace. Each line contains a correct word, then the words that learners
write instead, each followed by its count."""


def _parse_counts(text: str) -> dict[str, int]:
    lines = (line.split() for line in text.strip().splitlines())
    return {word: int(count) for count, *words in lines for word in words}


def _parse_pairs(text: str) -> dict[str, dict[str, int]]:
    lines = (line.split() for line in text.strip().splitlines())
    return {
        word: dict(zip(others[::2], map(int, others[1::2]), strict=True)) for word, *others in lines
    }


DEFAULT_ERRORS = LearnerErrors(
    deleted=_parse_counts(ADDED),
    missing=_parse_counts(OMITTED),
    replaced=_parse_pairs(REPLACED),
    errors=(5, 7, 25, 35, 28),
    kinds=dict(zip(ERROR_KINDS, (30, 25, 25, 20), strict=True)),
)
