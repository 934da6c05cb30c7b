package checkpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/shortform"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A Piece is rows of a variable that somebody has.
type Piece struct {
	Variable string  // of the user's program
	Dims     []int64 // of the whole variable
	FirstRow int64
	Rows     int64 // 1 where the variable has no rows
	Value    *tensor.Tensor
	Striped  bool // the rows are of the variable in the order of stripes (kernel.Stripes)
	Short    bool // these are rows of a table that grows: what is written are those in use

	// From has the elements where they are in no tensor; Value is nil then.
	From  Source
	DType tensor.DType // of From
}

// A Source has the elements of a piece. It is read piece by piece, and told what is not read any more, so what it has need not be in memory at once.
type Source = shortform.Source

// manifestName is the object that makes a checkpoint complete.
const manifestName = "manifest"

// NewName makes the name of a checkpoint of one run of a job, which has trained so many steps. No other checkpoint has it.
func NewName(run string, steps uint64) string { return nameOf(run, steps, rand.Text()) }

// WriteShard writes what one of the pservers of a job has at the cut. What it has must not change meanwhile. It returns when the shard is durable: the manifest
// of the checkpoint is to have what it returns.
func (s *Store) WriteShard(ctx context.Context, checkpoint string, index int, pieces []Piece) (*job.Shard, error) {
	if !isName(checkpoint) || index < 0 || index >= maxShards {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("shard %d of the checkpoint %s", index, fault.Quote(checkpoint)), fault.Want("a name that edl made"))
	}
	shard := &job.Shard{Name: fmt.Sprintf("shard-%d", index)}
	for _, p := range pieces {
		m, err := p.describe()
		if err != nil {
			return nil, err
		}
		shard.Pieces = append(shard.Pieces, m)
	}
	err := s.objects.create(ctx, checkpoint+"/"+shard.Name, func(to io.Writer) error {
		w := newSumming(&bounded{ctx, to})
		defer w.end()
		for i, m := range shard.Pieces {
			m.Offset = w.bytes
			err := pieces[i].write(w, m)
			if err == nil {
				m.Bytes, m.Crc32C = w.bytes-m.Offset, w.endPiece()
				err = checkPiece(m)
			}
			if err != nil {
				return fault.E(fault.KindOf(err), fault.Var(m.Variable), fault.Cause(err))
			}
		}
		err := w.flush()
		shard.Bytes, shard.Part, shard.Sha256 = w.bytes, partBytes, w.end()
		return err
	})
	return shard, err
}

// describe returns what the manifest says of a piece. Bytes, of rows in use, is what all rows have.
func (p Piece) describe() (*job.Piece, error) {
	dtype := p.DType
	if p.Value != nil {
		dtype = p.Value.DType()
	}
	m := &job.Piece{Variable: p.Variable, Dtype: int32(dtype), Dims: slices.Clone(p.Dims), FirstRow: p.FirstRow, Rows: p.Rows, Striped: p.Striped}
	if p.Value != nil {
		m.Bytes = p.Value.Bytes()
	} else if n, ok := tensor.Count(p.Dims); ok && dtype.Size() > 0 && int64(n) <= math.MaxInt64/int64(dtype.Size()) {
		m.Bytes = rowBytes(m) * p.Rows
	}
	if err := checkPiece(m); err != nil {
		return nil, err
	}
	m.Short = p.Short
	return m, checkPiece(m)
}

// write writes the elements of a piece, of which m says how many bytes they have.
func (p Piece) write(to *summing, m *job.Piece) error {
	size := tensor.DType(m.Dtype).Size()
	if p.From != nil {
		if p.Short {
			return shortform.WriteFrom(to, p.From, m.Bytes, size)
		}
		for at := int64(0); at < m.Bytes; {
			b := to.room()
			b = b[:min(int64(len(b)), m.Bytes-at)]
			if _, err := p.From.ReadAt(b, at); err != nil {
				return err
			}
			at += int64(len(b))
			p.From.Done(at)
			if err := to.take(len(b)); err != nil {
				return err
			}
		}
		return nil
	}
	b, err := wire.Memory(p.Value)
	switch {
	case err != nil:
		return err
	case p.Short:
		return shortform.Write(to, b, size, tensor.UsageOf(b).Unused)
	}
	_, err = to.Write(b)
	return err
}

// Publish writes the manifest of a checkpoint, whose shards are durable. From then on it is complete.
func (s *Store) Publish(ctx context.Context, checkpoint string, m *state.Checkpoint) error {
	if !isName(checkpoint) {
		return fault.E(fault.InvalidArgument, fault.Gotf("the name %s", fault.Quote(checkpoint)), fault.Want("a name that edl made"))
	}
	m.Version, m.Name = 1, checkpoint
	for _, s := range m.Shards {
		if s.Checkpoint != "" || s.Changes {
			m.Version = max(m.Version, 2)
		}
		if slices.ContainsFunc(s.Pieces, func(p *job.Piece) bool { return p.Striped }) {
			m.Version = max(m.Version, 3)
		}
		if slices.ContainsFunc(s.Pieces, func(p *job.Piece) bool { return p.Short }) {
			m.Version = max(m.Version, 4)
		}
		if s.Part != 0 {
			m.Version = version
		}
	}
	b, err := encodeManifest(m)
	if err != nil {
		return err
	}
	return s.objects.create(ctx, checkpoint+"/"+manifestName, func(to io.Writer) error {
		_, err := to.Write(b)
		return err
	})
}

// Prune removes checkpoints of a run of a job: all but the newest keep complete ones, and those that nobody will complete, also of other runs. Only the writer
// of its checkpoints may call it, between two of them.
func (s *Store) Prune(ctx context.Context, run string, keep int) error {
	if _, err := s.Remove(ctx, run, keep); err != nil {
		return err
	}
	_, err := s.removeIncomplete(ctx, func(e Entry) bool { return e.Run == run || time.Since(e.Changed) > Dead })
	return err
}

// Dead is how long after the last write an incomplete checkpoint is one that nobody will complete. A job gives it up earlier.
const Dead = time.Hour

// RemoveIncomplete removes incomplete checkpoints to which nobody has written for some time, and returns their names.
func (s *Store) RemoveIncomplete(ctx context.Context, age time.Duration) (removed []string, err error) {
	return s.removeIncomplete(ctx, func(e Entry) bool { return time.Since(e.Changed) > age })
}

// removeIncomplete removes incomplete checkpoints, but for those that complete ones have shards of.
func (s *Store) removeIncomplete(ctx context.Context, dead func(Entry) bool) (removed []string, err error) {
	list, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	gone := slices.DeleteFunc(slices.Clone(list), func(e Entry) bool { return e.Complete || !dead(e) })
	if len(gone) == 0 {
		return nil, nil
	}
	bases, err := s.bases(ctx, list)
	if err != nil {
		return nil, err
	}
	for _, e := range gone {
		if bases[e.Name] {
			continue
		}
		if err := s.removeAll(ctx, e); err != nil {
			return removed, err
		}
		removed = append(removed, e.Name)
	}
	return removed, nil
}

// bases returns the checkpoints that complete ones in a list have shards of. One that cannot be read for good has none.
func (s *Store) bases(ctx context.Context, list []Entry) (map[string]bool, error) {
	bases := map[string]bool{}
	for _, e := range list {
		if !e.Complete {
			continue
		}
		c, err := s.Read(ctx, e.Name)
		switch {
		case errors.Is(err, fault.Corrupt), errors.Is(err, fault.NotFound): // another process may have removed it
			continue
		case err != nil:
			return nil, err
		}
		for _, name := range BasesOf(c.Manifest) {
			bases[name] = true
		}
	}
	return bases, nil
}

// Remove removes checkpoints of a run that are older than its newest keep whole ones, besides those that these have shards of, and returns their names. Incomplete ones
// stay: a job may be writing them. So do damaged ones that are newer than the oldest that is kept: they do not count, because nothing can go on from them.
func (s *Store) Remove(ctx context.Context, run string, keep int) (removed []string, err error) {
	list, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(e Entry) bool { return e.Run != run || !e.Complete })
	keep, err = s.newest(ctx, list, keep)
	if err != nil {
		return nil, err
	}
	bases, err := s.bases(ctx, list[:keep])
	if err != nil {
		return nil, err
	}
	for _, e := range list[keep:] {
		if bases[e.Name] {
			continue
		}
		if err := s.removeAll(ctx, e); err != nil {
			return removed, err
		}
		removed = append(removed, e.Name)
	}
	return removed, nil
}

// newest returns how many of the first checkpoints of a list have keep whole ones among them: all, if there are fewer. A whole one has a manifest that can be read, and all
// shards in their length. What is in them is not read, as Verify does.
func (s *Store) newest(ctx context.Context, list []Entry, keep int) (int, error) {
	objects, err := s.objects.list(ctx)
	if err != nil {
		return 0, err
	}
	lengths := map[string]int64{}
	for _, o := range objects {
		lengths[o.name] = o.bytes
	}
	for i, e := range list {
		if keep <= 0 {
			return i, nil
		}
		c, err := s.Read(ctx, e.Name)
		switch {
		case errors.Is(err, fault.Corrupt), errors.Is(err, fault.NotFound), errors.Is(err, fault.InvalidArgument):
			continue
		case err != nil:
			return 0, err
		}
		if !slices.ContainsFunc(c.Manifest.Shards, func(shard *job.Shard) bool {
			n, ok := lengths[c.object(shard)]
			return !ok || n != shard.Bytes
		}) {
			keep--
		}
	}
	return len(list), nil
}

// Discard removes the manifest of a checkpoint that cannot be read: it is not complete any more, and the next Prune removes the rest.
func (s *Store) Discard(ctx context.Context, e Entry) error {
	return s.objects.remove(ctx, e.Name, []string{manifestName})
}

// removeAll removes a checkpoint, its manifest first.
func (s *Store) removeAll(ctx context.Context, e Entry) error {
	if e.Complete {
		if err := s.objects.remove(ctx, e.Name, []string{manifestName}); err != nil {
			return err
		}
	}
	return s.objects.remove(ctx, e.Name, slices.DeleteFunc(slices.Clone(e.objects), func(name string) bool { return name == manifestName }))
}
