package launch

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/wire"
)

// KeptNodes starts roles on the nodes of a cluster as Nodes does, and they outlive the listener that asked for them: each is a role of the keeper of its node. Where a start of a role is, is
// written before the node is asked, so the next listener finds it, and nothing starts twice:
//
//	DIR/RUN.places    a state.PlacedRole for each start of a role of a run, delimited
//	DIR/logs          the logs of runs: see RunLogs
//
// A role also outlives the listener of its node. Its handle looks for the node until that answers again, perhaps at another address. A node that is away for longer than the start deadline
// of the job counts as lost, and so does one whose keeper is another.
type KeptNodes struct {
	directory, open Directory
	side            *wire.Side
	dir             string
	logs            *RunLogs
	log             *slog.Logger

	mu     sync.Mutex
	places map[string]map[string]*state.PlacedRole // by run and start, of runs that were asked for
}

var _ Launcher = (*KeptNodes)(nil)

// Suffix of the files of places, and the bound of one place in bytes.
const (
	placesSuffix = ".places"
	maxPlace     = 4 << 10
)

// NewKeptNodes returns a launcher with the files of a folder, which no other listener has now. directory lists the nodes, and open those on which roles may begin; side is how a listener
// calls others.
func NewKeptNodes(directory, open Directory, side *wire.Side, dir string, log *slog.Logger) (*KeptNodes, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.File(fault.Unavailable, dir, err)
	}
	return &KeptNodes{directory: directory, open: open, side: side, dir: dir, logs: NewRunLogs(filepath.Join(dir, "logs"), log), log: log,
		places: map[string]map[string]*state.PlacedRole{}}, nil
}

// Start finds the node that has the role, or one that starts it.
func (n *KeptNodes) Start(ctx context.Context, spec *job.RoleSpec, _ io.Writer) (Handle, error) {
	if size := proto.Size(spec); size > MaxSpec {
		return nil, tooLarge(nameOf(spec), int64(size), MaxSpec)
	}
	place, err := n.placeOf(spec)
	if err == nil && place == nil {
		place, err = n.place(ctx, spec)
	}
	if err != nil {
		return nil, err
	}
	return follow(ctx, n, spec, place), nil
}

// place chooses a node for a start of a role, and writes it down. The nodes are asked in turn until one answers.
func (n *KeptNodes) place(ctx context.Context, spec *job.RoleSpec) (*state.PlacedRole, error) {
	nodes, err := n.open.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, noNode(spec)
	}
	var failures []error
	for _, node := range inTurn(nodes, spec) {
		asking, cancel := context.WithTimeout(ctx, jobspec.DeadlinesOf(spec.Spec).NodeStart)
		keeper, err := n.keeperOf(asking, node)
		cancel()
		if err == nil {
			p := &state.PlacedRole{Start: StartOf(spec), Node: node.ID, Keeper: keeper}
			return p, n.write(spec.CheckpointRun, p)
		}
		if ctx.Err() != nil || !errors.Is(err, fault.Unavailable) && !errors.Is(err, fault.DeadlineExceeded) && !errors.Is(err, fault.Unsupported) {
			return nil, err
		}
		failures = append(failures, err)
	}
	return nil, noneAnswers(spec, failures)
}

// keeperOf asks a node for the id of its keeper. A node of another protocol starts no role.
func (n *KeptNodes) keeperOf(ctx context.Context, node cluster.Node) (string, error) {
	conn, err := wire.Dial(node.Address, n.side)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	where := "node " + node.ID
	about, err := askKeeper(ctx, rpc.NewKeeperClient(conn), where)
	if err != nil {
		return "", err
	}
	return about.Id, wire.SameProtocol(where, about.Protocol, about.Build, "start the listeners of all nodes from one build; roles that run there go on")
}

// askKeeper returns what a keeper says of itself.
func askKeeper(ctx context.Context, k rpc.KeeperClient, where string) (about *rpc.KeeperState, _ error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := k.Attend(ctx, &rpc.AttendRequest{}, grpc.WaitForReady(false))
	if err == nil {
		about, err = stream.Recv()
	}
	return about, wire.FromStatus(where, err)
}

// file is where the places of a run are.
func (n *KeptNodes) file(run string) string {
	return filepath.Join(n.dir, url.PathEscape(run)+placesSuffix)
}

// placeOf returns where a start of a role is; nil: nowhere yet.
func (n *KeptNodes) placeOf(spec *job.RoleSpec) (*state.PlacedRole, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	places, err := n.placesOf(spec.CheckpointRun)
	return places[StartOf(spec)], err
}

// placesOf returns where the roles of a run are. An earlier listener that was killed may have left a part of a last place, at which nothing has started. n.mu is held.
func (n *KeptNodes) placesOf(run string) (map[string]*state.PlacedRole, error) {
	if places := n.places[run]; places != nil {
		return places, nil
	}
	b, err := os.ReadFile(n.file(run))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.File(fault.Unavailable, n.file(run), err)
	}
	places := map[string]*state.PlacedRole{}
	whole := []byte(nil)
	for from := bufio.NewReader(strings.NewReader(string(b))); ; {
		p := &state.PlacedRole{}
		if (protodelim.UnmarshalOptions{MaxSize: maxPlace}).UnmarshalFrom(from, p) != nil {
			break
		}
		places[p.Start] = p
		whole = appendDelimited(whole, p)
	}
	if len(whole) < len(b) { // what is written next must not follow a part of a place
		if err := os.WriteFile(n.file(run), whole, 0o600); err != nil {
			return nil, fault.File(fault.Unavailable, n.file(run), err)
		}
	}
	n.places[run] = places
	return places, nil
}

func appendDelimited(b []byte, p *state.PlacedRole) []byte {
	var text strings.Builder
	_, _ = protodelim.MarshalTo(&text, p) // a builder takes all
	return append(b, text.String()...)
}

// write adds a place of a run.
func (n *KeptNodes) write(run string, p *state.PlacedRole) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	places, err := n.placesOf(run)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(n.file(run), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write(appendDelimited(nil, p))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		delete(n.places, run) // a part of it may be written
		return fault.File(fault.Unavailable, n.file(run), err)
	}
	places[p.Start] = p
	return nil
}

// Lines calls each with the lines of all roles of a run from a number on. With follow it waits for more until ctx ends or the run is released.
func (n *KeptNodes) Lines(ctx context.Context, run string, from uint64, follow bool, each func(*rpc.LogLine)) error {
	return n.logs.Lines(ctx, run, from, follow, each)
}

// Release forgets a run, and lets its nodes forget it. Roles that are left are killed. A node that does not answer is asked again by Only of the next listener.
func (n *KeptNodes) Release(ctx context.Context, run string) error {
	n.mu.Lock()
	places, err := n.placesOf(run)
	delete(n.places, run)
	n.mu.Unlock()
	if err != nil {
		return errors.Join(err, n.logs.Release(run))
	}
	if err = n.onEach(ctx, places, func(ctx context.Context, k Kept) error { return k.Release(ctx, run) }); err == nil {
		if err = os.Remove(n.file(run)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return errors.Join(err, n.logs.Release(run))
}

// releaseTime bounds the answer of a node that is to forget a run.
const releaseTime = 5 * time.Second

// onEach asks the keepers of all nodes among places something, each once.
func (n *KeptNodes) onEach(ctx context.Context, places map[string]*state.PlacedRole, ask func(context.Context, Kept) error) error {
	var asked []string
	var group sync.WaitGroup
	failures := make([]error, len(places))
	for _, p := range places {
		if at := len(asked); !slices.Contains(asked, p.Node) {
			asked = append(asked, p.Node)
			group.Go(func() { failures[at] = n.on(ctx, p.Node, ask) })
		}
	}
	group.Wait()
	return errors.Join(failures...)
}

// on asks the keeper of a node something, within releaseTime.
func (n *KeptNodes) on(ctx context.Context, id string, ask func(context.Context, Kept) error) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	_, address, err := find(ctx, n.directory, id)
	if err != nil {
		return err
	}
	conn, err := wire.Dial(address, n.side)
	if err != nil {
		return err
	}
	defer conn.Close()
	return ask(ctx, Kept{Keeper: rpc.NewKeeperClient(conn)})
}

// find returns the address of a node, and how many nodes there are.
func find(ctx context.Context, d Directory, id string) (all int, address string, _ error) {
	nodes, err := d.Nodes(ctx)
	if err != nil {
		return 0, "", err
	}
	for _, n := range nodes {
		if n.ID == id {
			return len(nodes), n.Address, nil
		}
	}
	return len(nodes), "", fault.E(fault.Unavailable, fault.At("node "+id), fault.Got("a node that is not in the cluster now"), fault.Want("its listener"),
		fault.Hint("start \"edl listen --node "+id+"\" there again"))
}

// Clear lets each node start the next role of a run from its binary of then, as that of Kept does.
func (n *KeptNodes) Clear(ctx context.Context, run string) error {
	n.mu.Lock()
	places, err := n.placesOf(run)
	n.mu.Unlock()
	if err != nil {
		return err
	}
	return n.onEach(ctx, places, func(ctx context.Context, k Kept) error { return k.Clear(ctx, run) })
}

// Only releases all runs but these.
func (n *KeptNodes) Only(ctx context.Context, runs []string) error {
	entries, err := os.ReadDir(n.dir)
	if err != nil {
		return fault.File(fault.Unavailable, n.dir, err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), placesSuffix)
		if run, wrong := url.PathUnescape(name); ok && wrong == nil && !slices.Contains(runs, run) {
			err = errors.Join(err, n.Release(ctx, run))
		}
	}
	return errors.Join(err, n.logs.Only(runs))
}
