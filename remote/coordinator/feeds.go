package coordinator

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// feeds holds what is to be fed to each trainer. Server.mu guards it.
type feeds struct {
	shares [][]*rpc.FeedShare // by rank: those that the rank has not said to have trained
	first  []uint64           // by rank: number of the first of shares
	closed bool
}

func newFeeds(trainers int) feeds {
	return feeds{shares: make([][]*rpc.FeedShare, trainers), first: make([]uint64, trainers)}
}

// next returns share number n of a rank, nil when it is not there yet. A request for it says that those before have been trained.
func (f *feeds) next(rank int, n uint64) (*rpc.FeedShare, error) {
	if rank >= len(f.shares) {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("a request for a feed of trainer %d", rank),
			fault.Wantf("trainers 0 to %d", len(f.shares)-1))
	}
	first, end := f.first[rank], f.first[rank]+uint64(len(f.shares[rank]))
	switch {
	case n < first:
		return nil, fault.E(fault.Stale, fault.Gotf("a request for feed %d of trainer %d", n, rank), fault.Wantf("feed %d or later", first))
	case n > end:
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("a request for feed %d of trainer %d", n, rank), fault.Wantf("at most %d", end))
	}
	f.shares[rank], f.first[rank] = slices.Delete(f.shares[rank], 0, int(n-first)), n
	switch {
	case n < end:
		return f.shares[rank][0], nil
	case f.closed:
		return &rpc.FeedShare{End: true}, nil
	}
	return nil, nil
}
