-- For the rest of the transaction, documents are on the side where they are wanted; not for a generation that is being built beside the
-- one in force, which follows what readers see.
select set_config
( 'threadhouse.sides'
, case when exists
    ( select from nao.vector_generation g
      where g.state = 'in_force'
        and right(%(physical)s, length('__' || g.space_id || '__g' || g.generation)) <> '__' || g.space_id || '__g' || g.generation )
  then 'shown' else 'wanted' end
, true )
