-- All at once, because they may stand on each other; whatever else stands on one of them stops it.
drop view {views}
