package cluster

import (
	"context"
	"fmt"
	"strconv"

	"github.com/edl-go/edl/fault"
)

// SetDesired puts the number of pservers without a lease: it must not vanish with the member that wrote it.
func (r *registry) SetDesired(ctx context.Context, servers int) error {
	return r.setCount(ctx, desiredKey, servers)
}

// Desired waits for the number of pservers.
func (r *registry) Desired(ctx context.Context) (int, error) {
	return r.count(ctx, desiredKey, "the number of pservers")
}

// SetTrainers puts the number of trainers, without a lease too.
func (r *registry) SetTrainers(ctx context.Context, trainers int) error {
	return r.setCount(ctx, wantedKey, trainers)
}

// Trainers waits for the number of trainers.
func (r *registry) Trainers(ctx context.Context) (int, error) {
	return r.count(ctx, wantedKey, "the number of trainers")
}

// WatchTrainers follows the number of trainers. A number that does not make sense is left out.
func (r *registry) WatchTrainers(ctx context.Context) (<-chan int, error) {
	return watch(ctx, r, wantedKey, func(v view) (int, bool) {
		e, said := v[r.prefix+wantedKey]
		if !said {
			return 0, false
		}
		n, err := countIn(r.prefix+wantedKey, e.value)
		return n, err == nil
	})
}

func (r *registry) setCount(ctx context.Context, key string, n int) error {
	if err := checkCount(n); err != nil {
		return err
	}
	ctx, cancel := r.scope(ctx)
	defer cancel()
	_, _, err := r.store.commit(ctx, txn{puts: []put{{key: r.prefix + key, value: fmt.Sprint(n)}}})
	return storeFault(ctx, r.prefix+key, err)
}

func (r *registry) count(ctx context.Context, key, what string) (int, error) {
	var text string
	err := r.await(ctx, key, func(v view) string {
		if text = v[r.prefix+key].value; text == "" {
			return what
		}
		return ""
	})
	if err != nil {
		return 0, err
	}
	return countIn(r.prefix+key, text)
}

func countIn(key, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fault.E(fault.Corrupt, fault.At(key), fault.Got(fault.Quote(text)), fault.Want("a number"))
	}
	return n, checkCount(n)
}

// checkCount bounds a number of members before anything is made of that size.
func checkCount(n int) error {
	if n < 1 || n > maxMembers {
		return fault.E(fault.InvalidArgument, fault.At("cluster"), fault.Gotf("%d members of a role", n), fault.Wantf("1 to %d", maxMembers))
	}
	return nil
}
