package cluster

import (
	"context"
	"strings"
)

// Live looks at the keys of members.
func (r *registry) Live(ctx context.Context) (map[Member]uint64, error) {
	live := map[Member]uint64{}
	for _, key := range []string{lockKey, serversKey, trainersKey} {
		v, err := r.look(ctx, r.prefix+key)
		if err != nil {
			return nil, err
		}
		for key, e := range v {
			if m, ok := memberOf(strings.TrimPrefix(key, r.prefix)); ok {
				live[m] = uint64(e.created)
			}
		}
	}
	return live, nil
}

// Bury ends the lease under which the key was taken, not the key: every claim has a lease of its own, so that whoever takes the key in between keeps
// it.
func (r *registry) Bury(ctx context.Context, m Member, incarnation uint64) error {
	ctx, cancel := r.scope(ctx)
	defer cancel()
	key := r.prefix + memberKey(m)
	v, err := r.store.get(ctx, key)
	e, lives := v[key]
	if err != nil || !lives || incarnation != 0 && incarnation != uint64(e.created) {
		return storeFault(ctx, key, err)
	}
	return storeFault(ctx, key, r.store.end(ctx, e.lease))
}

// Forget removes all keys of the job but the numbers of its members, at one revision.
func (r *registry) Forget(ctx context.Context) error {
	ctx, cancel := r.scope(ctx)
	defer cancel()
	t := txn{clears: []string{r.prefix + stateKey}, deletes: []string{r.prefix + commitKey}}
	for _, key := range roleKeys {
		t.clears = append(t.clears, r.prefix+key+"/", r.prefix+key+"_mark/")
	}
	_, _, err := r.store.commit(ctx, t)
	return storeFault(ctx, r.prefix, err)
}
