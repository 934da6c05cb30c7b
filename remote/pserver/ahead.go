package pserver

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// Most of what moves to another placement is copied while rounds go on. While the job pauses, only what has changed since is copied again:
//
//	server of the next placement                         server of the placement before
//	CopyRows, ahead: rows                          --->  reads them between two rounds
//	                                               <---  all that are not zeros
//	CopyRows, ahead: rows, and sums of their blocks -->  compares
//	                                               <---  blocks that have changed      again and again, until that is little, or grows less no more
//	(the job pauses: Restore, see move.go)
//	CopyRows: rows, and sums of their blocks       --->  compares
//	                                               <---  blocks that have changed
//
// What blocks hold decides, so neither end keeps account of the other: an answer may be lost, a round may be given up, and a standby may have
// taken the place of its server meanwhile. Blocks with other elements have equal sums of 64 bits by chance alone, in one of 2^64 cases. A server keeps its own
// sums, and knows which blocks its rounds have changed since (blocksums.go): while the job pauses, it reads only those.
//
// The room for a slice begins with zeros, and blocks of zeros do not travel. So rows of a table that were never used take no memory at the other end.
//
// Where most blocks change from one time to the next, as those of a dense parameter do in each round, copying ahead is of no use: such rows move while the job
// pauses, as they are.

const (
	stretchBytes = 4 << 20 // that rows of one message have at most, unless one row has more
	mostStretch  = 8 << 20 // what has more moves as it is
	aheadStreams = 2       // calls of a server at the same time while rounds go on
	roomBytes    = 1 << 20 // that an answer has room for at first, unless there is less to send
	aheadEnough  = 4 << 20 // when so few bytes have changed, copying them again ahead is not worth while
)

// A stretch is rows of a part that one message takes.
type stretch struct {
	part
	into     *tensor.Tensor // its rows here
	sums     []uint64       // of the blocks of into; nil: it has zeros
	restless *atomic.Bool   // of all stretches of a part: most of it changes all the time
}

// blocksOf cuts the memory of rows into blocks of whole rows: how many bytes each has, but the last, and how many there are.
func blocksOf(t *tensor.Tensor) (each, n int) {
	all := int(t.Bytes())
	if all == 0 {
		return 0, 0
	}
	each = all
	if rows := blockRows(t); rows > 0 {
		each = int(rows * (t.Bytes() / t.Dims()[0]))
	}
	return each, (all + each - 1) / each
}

// sumOf is the sum of a block. It is never 0.
func sumOf(b []byte) uint64 { return max(1, xxhash.Sum64(b)) }

// stretchesOf cuts a part into stretches.
func stretchesOf(p part, slice *tensor.Tensor) (list []*stretch, err error) {
	restless := new(atomic.Bool)
	step := p.rows
	if rows, bytes := p.rows, slice.Bytes(); rows > 0 && bytes > 0 && len(slice.Dims()) > 0 {
		row := bytes / slice.Dims()[0]
		step = max(1, stretchBytes/row)
		if whole := max(1, blockBytes/row); step > whole {
			step -= step % whole
		}
	}
	for from := int64(0); from < p.rows; from += step {
		n := min(step, p.rows-from)
		s := &stretch{part: part{p.of, p.from + from, p.to + from, n}, restless: restless}
		if s.into, err = viewOf(slice, s.to, n); err != nil {
			return nil, err
		}
		if s.into.Bytes() > mostStretch {
			restless.Store(true)
		}
		list = append(list, s)
	}
	return list, nil
}

// plan lists what this server needs of the placement before. Who has the token of core.moving calls it.
func (s mover) plan() ([]*stretch, error) {
	if s.stretches != nil {
		return s.stretches, nil
	}
	held := map[string][]*job.Held{}
	for _, h := range s.core.cfg.Before {
		held[h.Origin] = append(held[h.Origin], h)
	}
	var all []*stretch
	for _, slice := range s.cuts.service.Slices {
		parts, err := partsOf(slice, held[slice.Origin], s.core.cfg.Index)
		if err != nil {
			return nil, err
		}
		to, ok := s.values.Variable(slice.Name)
		if !ok {
			return nil, noTensor(slice.Name)
		}
		for _, p := range parts {
			list, err := stretchesOf(p, to)
			if err != nil {
				return nil, err
			}
			all = append(all, list...)
		}
	}
	s.stretches = all
	return all, nil
}

// ahead is Restore from the servers of the placement before while rounds go on.
func (s mover) ahead(ctx context.Context, m *rpc.RestoreRequest) (*rpc.RestoreResponse, error) {
	c := s.core
	used, done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if used {
		return &rpc.RestoreResponse{}, nil
	}
	all, err := s.plan()
	if err != nil {
		return nil, err
	}
	began, total := time.Now(), int64(0)
	for last := int64(math.MaxInt64); ; {
		n, err := s.copyAll(ctx, m.Id, all, true)
		if err != nil {
			return nil, fault.E(fault.KindOf(err), fault.At(c.Where), fault.Cause(err))
		}
		total += n
		if n <= aheadEnough || n > last/2 {
			break
		}
		last = n
	}
	c.cfg.Log.Info("copied of the placement before, while it is in use", "bytes", total, "took", time.Since(began))
	return &rpc.RestoreResponse{Bytes: total}, nil
}

// copyAll makes stretches equal to the rows that others have, as they are now or, not ahead, after the rounds below that of who. It returns how many bytes that
// took, of other processes and, ahead, also of this one.
func (s mover) copyAll(ctx context.Context, who *rpc.Identity, all []*stretch, ahead bool) (int64, error) {
	s.values.freezer.replaced()
	var bytes atomic.Int64
	tasks := make([]func() error, 0, len(all))
	for _, one := range all {
		tasks = append(tasks, func() error {
			n, err := s.renew(ctx, who, one, ahead)
			bytes.Add(n)
			return err
		})
	}
	streams := moveStreams
	if ahead {
		streams = aheadStreams
	}
	err := inParallel(ctx, streams, tasks)
	return bytes.Load(), err
}

// renew makes one stretch equal to the rows that others have.
func (s mover) renew(ctx context.Context, who *rpc.Identity, one *stretch, ahead bool) (bytes int64, err error) {
	here := s.core.cfg.Same != nil && int(one.of.Server) == s.core.cfg.Index
	if one.restless.Load() {
		if ahead {
			return 0, nil
		}
		one.sums = nil // a part of it may come
		return s.take(ctx, who, one.part, one.into)
	}
	_, n := blocksOf(one.into)
	had, changed := one.sums != nil, 0
	if here {
		bytes, changed, err = renewHere(s.core.cfg.Same, one, ahead)
	} else {
		bytes, changed, err = s.ask(ctx, who, one, ahead)
	}
	if err == nil && ahead && had && n > 1 && 2*changed > n {
		one.restless.Store(true)
	}
	return bytes, err
}

// renewHere makes a stretch equal to rows of another server of this process. Not ahead, what it copies does not count as moved.
func renewHere(from *Server, one *stretch, ahead bool) (copied int64, changed int, err error) {
	rows, err := rowsHere(from, one.of.Name, one.from, one.rows)
	if err != nil {
		return 0, 0, err
	}
	now, to, err := memories(rows, one.into)
	if err != nil {
		return 0, 0, err
	}
	if ahead {
		from.values.Lock()
		defer from.values.Unlock()
	}
	differ, sums, err := from.sums.compare(stretchOf{one.of.Name, one.from, one.rows}, rows, one.sums)
	if err != nil {
		return 0, 0, err
	}
	each, _ := blocksOf(rows)
	for _, block := range differ {
		at := block * each
		n := copy(to[at:min(at+each, len(to))], now[at:])
		if ahead {
			copied += int64(n)
		}
	}
	one.sums = sums
	return copied, len(differ), nil
}

// memories returns the elements of rows and of the room for them, which must be alike.
func memories(rows, into *tensor.Tensor) (now, to []byte, err error) {
	if rows.DType() != into.DType() || rows.Bytes() != into.Bytes() {
		return nil, nil, fault.E(fault.Internal, fault.Gotf("rows %s for room %s", rows, into))
	}
	if now, err = wire.Memory(rows); err == nil {
		to, err = wire.Memory(into)
	}
	return now, to, err
}

// ask makes a stretch equal to rows of another process.
func (s mover) ask(ctx context.Context, who *rpc.Identity, one *stretch, ahead bool) (bytes int64, changed int, err error) {
	c, index, from := s.core, int(one.of.Server), wire.SenderOf(who)
	client, err := c.cfg.Peer(index)
	if err != nil {
		return 0, 0, err
	}
	own := c.cfg.Identity
	own.Generation, own.Fence = from.Generation, from.Fence
	m := &rpc.CopyRequest{Name: one.of.Name, FirstRow: one.from, Rows: one.rows, Sums: one.sums, Ahead: ahead, Placement: c.cfg.After}
	var answer *rpc.CopyResponse
	ctx, cancel := s.bounded(ctx, index)
	defer cancel()
	err = wire.Retry(ctx, func(retry id.Retry) (err error) {
		m.Id = own.Of(0, from.Round, retry)
		answer, err = client.CopyRows(ctx, m)
		return wire.FromStatus(serverName(index), err)
	})
	if err != nil {
		return 0, 0, err
	}
	return int64(len(answer.Data)), len(answer.Blocks), one.put(answer)
}

// bounded limits how long another server may take to send rows of a stretch.
func (s mover) bounded(ctx context.Context, index int) (context.Context, context.CancelFunc) {
	limit := s.core.cfg.RoundDeadline
	return context.WithTimeoutCause(ctx, limit, fault.E(fault.DeadlineExceeded, fault.At(serverName(index)), fault.Gotf("no rows within %v", limit),
		fault.Hint("raise round_deadline")))
}

// put puts the blocks of an answer in their places.
func (one *stretch) put(answer *rpc.CopyResponse) error {
	to, err := wire.Memory(one.into)
	if err != nil {
		return err
	}
	each, n := blocksOf(one.into)
	bad := func(got string) error {
		return fault.E(fault.Corrupt, fault.Var(one.of.Name), fault.Got(got), fault.Wantf("blocks of %d rows that are asked for", one.rows))
	}
	if one.sums == nil {
		one.sums = make([]uint64, n)
		for block := range n {
			at := block * each
			one.sums[block] = sumOf(to[at:min(at+each, len(to))])
		}
	}
	data := answer.Data
	for i, block := range answer.Blocks {
		if int(block) >= n || i > 0 && block <= answer.Blocks[i-1] {
			return bad(fmt.Sprintf("block %d", block))
		}
		at := int(block) * each
		end := min(at+each, len(to))
		if len(data) < end-at {
			return bad("too few bytes")
		}
		copy(to[at:end], data)
		data, one.sums[block] = data[end-at:], sumOf(to[at:end])
	}
	if len(data) > 0 {
		return bad("too many bytes")
	}
	return nil
}

// A lender answers servers of the next placement.
type lender struct{ from *Server }

// CopyRows implements the rpc.
func (l lender) CopyRows(ctx context.Context, m *rpc.CopyRequest) (*rpc.CopyResponse, error) {
	s := l.from
	if err := s.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	c := s.core
	switch {
	case c.rounds == nil:
		return nil, c.refuse(fault.E(fault.Unsupported, fault.At(c.Where), fault.Got("a move of an async job"), fault.Want("a sync job")))
	case !m.Ahead:
		if err := reaches(ctx, s, m.Id); err != nil {
			return nil, err
		}
	}
	rows, err := rowsHere(s, m.Name, m.FirstRow, m.Rows)
	if err != nil {
		return nil, c.refuse(err)
	}
	each, n := blocksOf(rows)
	if rows.Bytes() > mostStretch || len(m.Sums) > 0 && len(m.Sums) != n {
		return nil, c.refuse(fault.E(fault.InvalidArgument, fault.At(c.Where), fault.Var(m.Name),
			fault.Gotf("a request for %d rows of %d bytes, with %d sums", m.Rows, rows.Bytes(), len(m.Sums)), fault.Wantf("at most %d bytes, and %d sums or none", mostStretch, n)))
	}
	now, err := wire.Memory(rows)
	if err != nil {
		return nil, c.refuse(err)
	}
	if m.Ahead {
		s.values.Lock()
		defer s.values.Unlock()
	}
	differ, _, err := s.sums.compare(stretchOf{m.Name, m.FirstRow, m.Rows}, rows, m.Sums)
	if err != nil {
		return nil, c.refuse(err)
	}
	answer := &rpc.CopyResponse{}
	for _, block := range differ {
		at := block * each
		part := now[at:min(at+each, len(now))]
		if answer.Data == nil {
			answer.Data = make([]byte, 0, min(len(now)-at, max(len(part), roomBytes)))
		}
		answer.Blocks, answer.Data = append(answer.Blocks, uint32(block)), append(answer.Data, part...)
	}
	return answer, nil
}
