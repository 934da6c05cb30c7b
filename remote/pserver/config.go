package pserver

import (
	"log/slog"
	"time"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// Config is what a Server is told about its job.
type Config struct {
	Identity    wire.Identity // its Generation and Fence are not used: coordinators tell them
	Index       int           // of this server
	Servers     int           // in the job
	MaxTrainers int           // ranks are less
	// for a coordinator to begin a generation, the first one or another one after it has ended the last
	StartDeadline time.Duration
	RoundDeadline time.Duration                                      // from the first message of a round to the last
	Workers       int                                                // optimize blocks that run at the same time; at least 1
	Peer          func(index int) (rpc.ParameterServerClient, error) // the client of another server; it does not wait
	Log           *slog.Logger
}
