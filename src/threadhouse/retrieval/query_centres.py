"""What all questions of a language have in common, taken out of each of them before anything is searched.

Belongs here: the common part by vector space and language, how much of it is taken.
Does not belong here: embedding (stores.embedders), the language of a question (query_text).

In the space of a small model a good part of every question's vector says only that it is a question in its language. It pulls
every question towards the same few texts, most of all across languages. Without part of it, MRR@10 of the nearest vectors alone
went from .791 to .826 (vi → en), .831 to .851 (en → vi), .387 to .465 (vi without marks → vi), .933 to .936 (vi → vi), and from
.960 to .958 (en → en). The common part is the mean of forty made-up questions (``python -m bench.query_centres`` prints it); the
mean of half of the judged questions themselves is hardly better.

A space that is not listed has none, and its questions stay as they are.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from threadhouse.retrieval.models import Vectors

TAKEN: Mapping[str, float] = {"vi": 0.4, "vi-unmarked": 0.8, "en": 0.4}
"""Share of the common part that is taken, by language. From .3 to .5 it makes little difference; all of it costs within a
language. Without marks, the common part is most of what the model sees."""

_CENTRES: Mapping[str, Mapping[str, str]] = {
    "me5-small-q4-384-3fbd7fa203": {
        "vi": (
            "aCvzqoKoKag7K12pMymuJpwssCQfKCoSVyu9qYeoSSeALMylH6MNqrYltyCVrO0p/ihdLIOoliouLSSqi6pSrAQlx6csLJ8r"
            "9apBqbksgaY3q4An2SUrLaYlfCoNqK8q7ap9G1Wq1ymUKIcnFCmbqtql9Ku6qrErZioNpWMlSCA9K44o4CjgKAmsmqjcpmMm"
            "vCQzpSkkgSMxJyOp8SeiqAerQ6q+qx4nqqeLLEcq36ioKY2hRSvEKuyqfamDobKqyx+PKNEsSKlkK9WryCifqx2sfCf7KZWp"
            "RSyzq3GmLCsKK0Mr66w6oH2kj6g6Kx6r+inAqTipc6hqqUOmHIhcKLglXSbeKFgpgCVFK2UqPSmFql0jA6Sap76qSiinqD8s"
            "ninIJQ0tI6wWLDSpGCQMqrYsfSrjJ16o5KnYqgspnimppGysaqiXqYmpKakPJXorDKzIqkilmisArE8o1Z9BLKap9CgKLCcp"
            "bKpkpS2p6q2erpKrZKzHKEyjaqheHdMov6perKarsSrorO0pDisYKQim2qNCKowlxChjJP2odioMqvgoUCuBqTyqqyzGpcGm"
            "NJ2VKe6p6iluK9QZ7yTYrXKpmCUyJl+pGaa/KlOspajep5GsjqgsrPOnzSf0KBaq76lfpgcpfayqLO6oYaogLM6lGihKKb6s"
            "f6vIrceeUyrpKXMs5qidJ/QkNqIRLbUoZyXWIQ2qc6T6qhGY6qzCJMspr6iRopKoJSWZLSWmEqlJLKIpHCyLLWQo2KsCqH4p"
            "YaWyqROAgazNLBmmNCxrJxUotizsqPskBhlxpiopuigjq4wbP5UqIhIiRCqJLGwmu6lZrGYoNSE+oPgo9awfqaurHagUoD2r"
            "pCsjKLChOaYeKM8gYBdDqLurqSmXq4CrkaUbKE2q7avNKLopPKkqHhSnEawlKZWo56l7KPkk+a3wIg8j26gvKDipM6YwJlUo"
            "b6vdq68psygSKJoqYpyPpvElF6x+JwIsoKwJGfsZ2qf7quUrEaueqAkqoCtCKT4p"
        ),
        "vi-unmarked": (
            "TSyTpaOr0KpuK6CoKiJNAFUs2yhNKu0YmizQqXWsviZ9LGKnwKmUqkQhfCYBqb0qfigDLH6pqii4LCqtk6nCqQopgakJKe4o"
            "ZqwKqucr96WSq3UrJCtALTkpxyg0qDMorKezo2mp2iogJ4grOijAqwiqT6uKrIMohixSqXIieCAeLF8qOSeTJgKrY6cdqkIo"
            "YCStqO4p+ySOKJOpIigmpRmo36gIrEwoQ6lxLdgr7atdK9em3CnRK4Sr2ql0qUOokKiJKpEpwKnHLP+oYyTerRqrDyQxLL2p"
            "tiwrqoKofSyvKHopta2npKar0qCJKUSqAC0JqZer5absqCun2B6/KAwrwicJLN0pyxzHKEgqLCz+q3olX6PXoCeshylBptgo"
            "1ypAKFot1qltLD2qFyc+pRQsDSjPJMGosa06rLso3ilQqMyrbKv4pNupAqlLKY0sDK2JqA2pWCiRqhMoxaB5K9qqaiu3LFgn"
            "Rqj/pEKp96xbrHCrCKwFKHwjwKFFos0oaK3HrZGpSCpCq+opNitjKR6g3KnlKWkkxioLndurMym+pWwquys5rOer6iswpzun"
            "BSSTKrGrPiQOLBOfGSnqrRmriygxKQWp9Kd1KoSsgKe5rL2s7Knwqa+YiCjsKXer8Ktyo+Uqg62QKpCo3Ks9KqimOipeLBGt"
            "VKrRrh2pDCjxKegrHqpRKWMswZg6LOEqWysfKNashqlnrDij/avJKPspLahMqM6mOidfLZaoNKh4LMIoQiUeLbop0alKnUAr"
            "JqXqqdOkda4gLEClbCxMKMgkiC0SqdkoFJi5qJ4keiEOrI8kGhxPKkwmQyqNLS0prakQp6YfKSUOpkiTcqrvqeqr0qqHEKyr"
            "3CgjIxKlvaTAKaMpzyQeolGsPCzkq6WF4aXnKOeqE62gKKAqIqqyJZWkT62JKqKncKk3HyopaK0JIUAqEKluJqeptaomJVop"
            "vKucpeUpYSntmr8p850pmmYke6z2KesrTaxnI5ClvKjSqE8s9KouqmMpxyxSJSos"
        ),
        "en": (
            "8St8qYypmKgBKqurZCgKKL0rKBXvKpoicioarOemzig4LAemaKGhrBIpt6IMqx0rXCmAKwemUZwaKuirAaw3qZgp3KpoKoMq"
            "4avGp9IsHKrip4IoxCihKYckdyptpp0pyqTGpeKpnypMKVEpJit7qdCrv6mMqaMqOSktqysntSRtKyUqkiliKmusz53cq9wp"
            "IR3iptaUoCb9Jb6qTiGaqSGsjaiyqGIoEqu+KTEqs6ndLNKnuCoVKoyqGatHrOeqbaheKBkrIqhwK56oBiqHqG+pUCYUKuur"
            "SSxRqi6pAit7LG8rQqqVqdWeJqZUJ4WoKSz+pCGshqtlqjCqVCcwKwErGx87J3MnuCh7KTArZStnrIylLaNTpFSpfyizqGwo"
            "hizyKYAtv6hyKzuohClYqOArqCjjKAOogqyRq24pnSnjqESov6uQphOrsaAwKXwqpKq3psGphigOq7IquJvrKk+p6CpULMUp"
            "+qnNpvWoAKxcrBCslKogJg8lr6iipOEo6qiuqUqqSSo3rJgq3ipmKX2iwqStJcon5ihLJJ+pMCq/q/UqvCuXrE6rvivHofCk"
            "G5vEKt+okSorKuyhLSjmrgyqqidGKDeptaT0Kg+rvKmIqtCsaKgRqSaoiimWJfyp8qndqjko7KxGKe+pAKh/KOuhYCdIKhqs"
            "tqU0qsGmPinrJk0sa6mxJzaiL6YwLekpFCkMKMmqa6grq+qmtqxAKPgo7ajeqBmovCBPLD6hp6cbLMcp7CsKLBQmnKY0piQq"
            "JKtFqMOcMKnoK1eh0SqmKDkW7ysaqPUk3aj8qb0lJis1rAknEiChKHoeFSc/KvIoTKjdpsgpEypipd0mSKqfqiisbqoYp7Wq"
            "HSm9Jmuqj6lPJ7IXSCLyqCyswCvHqUuoYaZxKpmpF6wYJRApQqo3JnIY06lKJ9uoval7KOEqpq0jKAIpY6o1KNOmfqraJRkp"
            "E6usqNooxSiSKF4s1KTPnSwn/qofKkArpqlcICmkv6hCpxIsBqraqTMnYCz/JLIq"
        ),
    },
}
"""Means of unit vectors, 16-bit floats, base64."""


def take_common_part(question: Vectors, language: str) -> Vectors:
    """The question's vector without the common part of its language; of length 1 like every vector."""
    centre = _centre(question.space_id, language)
    if centre is None:
        return question
    moved = question.data - np.float32(TAKEN[language]) * centre
    return replace(question, data=moved / np.linalg.norm(moved, axis=1, keepdims=True))


@cache
def _centre(space_id: str, language: str) -> NDArray[np.float32] | None:
    encoded = _CENTRES.get(space_id, {}).get(language)
    if encoded is None:
        return None
    return np.frombuffer(base64.b64decode(encoded), "<f2").astype(np.float32)
