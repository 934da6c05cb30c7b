package rig

import (
	"errors"
	"sync"
)

// Each calls f for 0 to n-1 at the same time, waits for all, and returns their errors.
func Each(n int, f func(i int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = f(i) })
	}
	group.Wait()
	return errors.Join(errs...)
}
