package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// A Follower finds the newest checkpoint at an address, again and again, while a job writes further ones and removes old ones. One goroutine uses it.
type Follower struct {
	store *Store
	which string
	seen  []string // the complete checkpoints of the last look

	last  *Checkpoint // that Newest has returned
	older []string    // checkpoints that were there when it was the newest
}

// Follow returns a follower of an address, as Find takes it. Close closes its store.
func Follow(ctx context.Context, address string) (*Follower, error) {
	where, which := split(address)
	s, err := Open(ctx, where)
	if err != nil {
		return nil, err
	}
	return &Follower{store: s, which: which}, nil
}

// Newest returns the checkpoint that Find would return: fault.NotFound if there is none yet. The store stays open. It never returns an older checkpoint than before. If
// the last one is gone and only older ones are left, as while somebody removes the store, it returns the last one again, though nobody can read that any more.
func (f *Follower) Newest(ctx context.Context) (*Checkpoint, error) {
	there, err := f.complete(ctx)
	if err != nil {
		return nil, err
	}
	c, err := f.store.find(ctx, f.which)
	if errors.Is(err, fault.NotFound) { // a job may have removed what was just listed
		c, err = f.store.find(ctx, f.which)
	}
	if err != nil {
		return nil, err
	}
	if f.last != nil && slices.Contains(f.older, c.Name) {
		return f.last, nil
	}
	f.last, f.older = c, slices.DeleteFunc(there, func(name string) bool { return name == c.Name })
	return c, nil
}

// Changed reports whether the store has other complete checkpoints than at the last call. It reads no manifest, so it may be called each second.
func (f *Follower) Changed(ctx context.Context) (bool, error) {
	names, err := f.complete(ctx)
	if err != nil {
		return false, err
	}
	changed := !slices.Equal(names, f.seen)
	f.seen = names
	return changed, nil
}

// complete names the complete checkpoints of the store.
func (f *Follower) complete(ctx context.Context) (names []string, err error) {
	list, err := f.store.List(ctx)
	for _, e := range list {
		if e.Complete {
			names = append(names, e.Name)
		}
	}
	return names, err
}

// Close closes the store.
func (f *Follower) Close() error { return f.store.Close() }

// Same reports whether a variable has the same elements in another checkpoint of the store, as far as manifests tell: where it reports false, they may still be equal.
func (c *Checkpoint) Same(variable string, since *Checkpoint) bool {
	return samePieces(c.pieces[variable], since.pieces[variable]) && samePieces(c.changes[variable], since.changes[variable])
}

// Update makes a tensor that has a variable as it is in another checkpoint of the store have it as it is in c. If both are changes to the same base, it reads changes alone. If it fails, the
// elements are neither those of since nor those of c.
func (c *Checkpoint) Update(ctx context.Context, variable string, since *Checkpoint, into *tensor.Tensor) error {
	if !samePieces(c.pieces[variable], since.pieces[variable]) || !covers(c.changes[variable], since.changes[variable]) {
		return c.Load(ctx, variable, 0, into)
	}
	return c.loadPieces(ctx, variable, c.changes[variable], false, 0, into)
}

func samePieces(a, b []placed) bool {
	return slices.EqualFunc(a, b, func(a, b placed) bool { return a.object == b.object && proto.Equal(a.Piece, b.Piece) })
}

// covers reports whether changes have all rows of earlier ones: if not, some rows are again as in the base.
func covers(changes, earlier []placed) bool {
	sorted := slices.Clone(changes)
	slices.SortFunc(sorted, func(a, b placed) int { return byRows(a.Piece, b.Piece) })
	var runs [][2]int64 // of rows that follow each other
	for _, p := range sorted {
		if n := len(runs); n > 0 && p.FirstRow <= runs[n-1][1] {
			runs[n-1][1] = max(runs[n-1][1], p.FirstRow+p.Rows)
		} else {
			runs = append(runs, [2]int64{p.FirstRow, p.FirstRow + p.Rows})
		}
	}
	return !slices.ContainsFunc(earlier, func(p placed) bool {
		at, found := slices.BinarySearchFunc(runs, p.FirstRow, func(run [2]int64, row int64) int { return cmp.Compare(run[0], row) })
		if !found {
			at-- // the run that begins before
		}
		return at < 0 || p.FirstRow+p.Rows > runs[at][1]
	})
}
