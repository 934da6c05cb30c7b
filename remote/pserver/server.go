package pserver

import (
	"log/slog"
	"sync"
	"time"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/proto/rpc"
)

// Server is the parameter server: a gRPC service, and the ops.Server that listen_and_serv runs. Calls that arrive before the program serves
// wait for it, and messages of trainers that arrive before the generation that they are of begins wait for that.
type Server struct {
	rpc.UnimplementedParameterServerServer
	cfg Config

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced whenever the state below changes
	failed   chan struct{} // closed when err is set
	err      error
	layout   *comm.Service // nil until the program serves
	blocks   ops.BlockRunner
	machine  machine // rounds or updates, nil until the program serves
	rounds   *Rounds // sync, else nil
	updates  *Updates
	ledger   *Ledger // nil but on server 0
	applied  uint64  // updates applied in async mode
	finished bool
	done     chan struct{} // closed when finished
	free     bool          // released is closed
	released chan struct{} // closed when a coordinator knows that it is finished, or there is none
	seen     []time.Time   // last message by rank
	refused  map[string]uint64
	waits    map[int]wait // of calls
	nextWait int
	own      deadline // what the server itself waits for
	freezes  int      // how often a coordinator has ended a generation
	bytes    int64    // of what lives here from round to round

	inbox     inbox
	toApply   chan []Contributor
	published map[string]publication
	partials  map[int]int // exchanges under way, by the server whose partial sums are awaited
	// values orders those who change variables, which hold it shared because they change different ones, and those who copy, which hold it alone.
	values   sync.RWMutex
	updaters map[string]*updater               // async: by contribution
	arrival  sync.Mutex                        // async: held from the decision on a contribution until the tick that it asked for has ended
	tick     func(rank int, step uint64) error // async: runs the learning-rate block
}

var _ ops.Server = (*Server)(nil)

// New returns a server that waits for its program.
func New(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		cfg: cfg, changed: make(chan struct{}), failed: make(chan struct{}), done: make(chan struct{}), released: make(chan struct{}),
		seen: make([]time.Time, cfg.MaxTrainers), refused: map[string]uint64{}, waits: map[int]wait{}, toApply: make(chan []Contributor, 1),
		published: map[string]publication{}, partials: map[int]int{},
	}
}

// Released is closed when nobody will ask this server anything any more, which may be some time after Serve has returned well: a coordinator has said
// that the job has no members, or none has for the start deadline.
func (s *Server) Released() <-chan struct{} { return s.released }
