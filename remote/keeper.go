package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/filelock"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
)

// A listener with a data folder leaves the processes of its jobs, and its etcd, to a keeper: a process of its own that outlives it. Files of the folder:
//
//	keeper        path of the socket of the keeper that runs
//	keeper.lock   held by it
//	keeper.log    what it writes
const (
	keeperFile = "keeper"
	keeperLock = "keeper.lock"
	keeperLog  = "keeper.log"
)

// keeperPatience is when a keeper without a listener ends. With roles it waits for somebody who finds out in the morning.
var keeperPatience = launch.Patience{Idle: time.Minute, Alone: 12 * time.Hour}

// maxSocketPath is the longest path of a socket, in bytes, that every system takes.
const maxSocketPath = 100

// RunKeeper is the keeper of the listener that uses a data folder. It starts roles with launcher and, with ownEtcd, an etcd for them. It returns when the listener
// has dismissed it, when no listener has come for too long, or when ctx ends; by then it has stopped all roles, and removed what it has made.
func RunKeeper(ctx context.Context, dataDir string, launcher launch.Launcher, ownEtcd bool, log *slog.Logger) (err error) {
	lock, err := os.OpenFile(filepath.Join(dataDir, keeperLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fault.File(fault.Unavailable, dataDir, err)
	}
	defer lock.Close()
	if err := filelock.Try(lock); err != nil {
		return fault.E(fault.InvalidArgument, fault.At(dataDir), fault.Got("a data folder whose keeper runs"), fault.Want("one keeper"))
	}
	removeKilled(dataDir, log)
	runDir, err := launch.MakeRunDir("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, launch.RemoveRunDir(runDir)) }()
	about := &rpc.KeeperState{Id: rand.Text(), RunDir: runDir}
	var etcd *cluster.Embedded
	if ownEtcd {
		if etcd, err = keptEtcd(ctx, about, log); err != nil {
			return err
		}
		defer etcd.Close()
	}
	socket := filepath.Join(runDir, "keeper.sock")
	if len(socket) > maxSocketPath {
		return fault.E(fault.InvalidArgument, fault.At(socket), fault.Gotf("a path of %d bytes for a socket", len(socket)), fault.Wantf("at most %d", maxSocketPath),
			fault.Hint("name a shorter folder for temporary files in TMPDIR"))
	}
	port, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket) // in a folder that only this user opens
	if err == nil {
		err = os.Chmod(socket, 0o600)
	}
	if err != nil {
		return fault.File(fault.Unavailable, socket, err)
	}
	k := launch.NewKeeper(launcher, about)
	service := wire.NewServer(nil, wire.OfThisMachine())
	rpc.RegisterKeeperServer(service, k)
	serving, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- wire.Serve(serving, service, port, stopGrace) }()
	defer func() { stop(); err = errors.Join(err, <-served) }()
	known := filepath.Join(dataDir, keeperFile)
	if err := replaceFile(known, []byte(socket)); err != nil {
		return err
	}
	defer os.Remove(known)
	log.Info("the keeper has begun", "socket", socket)
	err = awaitEnd(ctx, k, etcd)
	log.Info("the keeper ends, and the roles that are left", "reason", err)
	k.End(err)
	return err
}

// removeKilled removes the run directory of a keeper that was killed, with the keys of its etcd: the file with the path of its socket is still there. The lock of the keeper is held.
func removeKilled(dataDir string, log *slog.Logger) {
	socket, err := os.ReadFile(filepath.Join(dataDir, keeperFile))
	if err == nil {
		err = launch.RemoveRunDir(filepath.Dir(string(socket)))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("files of a keeper that was killed are left", "error", err)
	}
}

// awaitEnd returns when a keeper is to end, and why.
func awaitEnd(ctx context.Context, k *launch.Keeper, etcd *cluster.Embedded) error {
	if etcd == nil {
		return k.Await(ctx, keeperPatience)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-etcd.Broken():
			cancel(etcd.Cause())
		case <-ctx.Done():
		}
	}()
	return k.Await(ctx, keeperPatience)
}

// keptEtcd starts the etcd of a keeper, with an authority of its own: users and other listeners have no business there.
func keptEtcd(ctx context.Context, about *rpc.KeeperState, log *slog.Logger) (*cluster.Embedded, error) {
	authority, err := credential.NewAuthority()
	if err != nil {
		return nil, err
	}
	own, err := listen.EtcdCredentials(authority)
	if err != nil {
		return nil, err
	}
	etcd, err := cluster.Embed(ctx, filepath.Join(about.RunDir, "etcd"), log, own)
	if err != nil {
		return nil, err
	}
	about.Authority, about.Etcd = authority.PEM(), etcd.Endpoints()
	return etcd, nil
}

// replaceFile writes a file of this user in one step.
func replaceFile(path string, b []byte) error {
	err := os.WriteFile(path+".new", b, 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fault.File(fault.Unavailable, path, err)
	}
	return nil
}

// A keeperLink is a listener's connection to its keeper.
type keeperLink struct {
	dataDir string
	conn    *grpc.ClientConn
	client  rpc.KeeperClient
	about   *rpc.KeeperState
	cancel  context.CancelFunc
	gone    chan struct{} // closed when the keeper has ended, or close was called
	cause   error         // valid when gone is closed
}

// findKeeper connects to the keeper of a data folder, and starts one if none runs. A keeper of another protocol is refused: it would not understand this listener. command is the program that runs it, with arguments; the folder is the last.
func findKeeper(ctx context.Context, dataDir string, command, env []string) (*keeperLink, error) {
	ctx, cancel := context.WithTimeout(ctx, embedTime)
	defer cancel()
	if l, err := attendTo(ctx, dataDir); err == nil {
		err = wire.SameProtocol("keeper of "+dataDir, l.about.Protocol, l.about.Build,
			"start the listener from that build, end or suspend its jobs, and end it with ctrl-C; then start this one, and go on with \"edl jobs resume\"")
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		return l, nil
	}
	ended, err := startKeeper(dataDir, command, env)
	if err != nil {
		return nil, err
	}
	for {
		l, failed := attendTo(ctx, dataDir)
		if failed == nil {
			return l, nil
		}
		timer := time.NewTimer(dialPause)
		select {
		case <-timer.C:
			continue
		case err := <-ended:
			timer.Stop()
			return nil, fault.E(fault.Unavailable, fault.At("keeper of "+dataDir), fault.Got("its end"), fault.Cause(err),
				fault.Hint("its last words: "+lastWords(filepath.Join(dataDir, keeperLog))))
		case <-ctx.Done():
			timer.Stop()
			return nil, fault.E(fault.DeadlineExceeded, fault.At("keeper of "+dataDir), fault.Gotf("no answer for %v", embedTime), fault.Cause(failed))
		}
	}
}

// startKeeper starts the process. It is in a session of its own, so that no signal of a terminal reaches it.
func startKeeper(dataDir string, command, env []string) (ended <-chan error, err error) {
	log, err := os.OpenFile(filepath.Join(dataDir, keeperLog), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fault.File(fault.Unavailable, dataDir, err)
	}
	defer log.Close()
	cmd := exec.Command(command[0], append(slices.Clone(command[1:]), dataDir)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	apart(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fault.Wrap(fault.Unavailable, "keeper of "+dataDir, err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }() // the process may outlive this one
	return done, nil
}

// lastWords is the end of a log.
func lastWords(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 512
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd)
	}
	b, _ := io.ReadAll(io.LimitReader(f, most))
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return fault.Quote(lines[len(lines)-1])
}

// attendTo connects to the keeper that runs.
func attendTo(ctx context.Context, dataDir string) (_ *keeperLink, err error) {
	socket, err := os.ReadFile(filepath.Join(dataDir, keeperFile))
	if err != nil {
		return nil, fault.File(fault.Unavailable, dataDir, err)
	}
	conn, err := wire.Dial("unix:"+string(socket), nil)
	if err != nil {
		return nil, err
	}
	l := &keeperLink{dataDir: dataDir, conn: conn, client: rpc.NewKeeperClient(conn), gone: make(chan struct{})}
	attending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	defer func() {
		if err != nil {
			cancel()
			_ = conn.Close()
		}
	}()
	stop := context.AfterFunc(ctx, cancel)
	stream, err := l.client.Attend(attending, &rpc.AttendRequest{}, grpc.WaitForReady(false))
	if err == nil {
		l.about, err = stream.Recv()
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, wire.FromStatus("keeper", err)
	}
	go func() {
		_, err := stream.Recv()
		l.cause = fault.E(fault.Unavailable, fault.At("keeper of "+dataDir), fault.Got("its end, and that of all roles"), fault.Cause(wire.FromStatus("keeper", err)),
			fault.Hint("start the listener again: \"edl jobs resume JOB\" goes on from the last checkpoint of a job"))
		close(l.gone)
	}()
	return l, nil
}

// close ends the connection. The keeper and its roles go on.
func (l *keeperLink) close() error {
	l.cancel()
	<-l.gone
	return l.conn.Close()
}

// dismiss ends the keeper, and waits until it is gone.
func (l *keeperLink) dismiss() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	_, err := l.client.Dismiss(ctx, &rpc.DismissRequest{}, grpc.WaitForReady(false))
	if err = wire.FromStatus("keeper", err); errors.Is(err, fault.Unavailable) {
		err = nil // it has gone
	}
	err = errors.Join(err, l.close())
	for filelock.Supported {
		f, failed := os.OpenFile(filepath.Join(l.dataDir, keeperLock), os.O_RDWR, 0o600)
		if errors.Is(failed, fs.ErrNotExist) {
			return err
		}
		if failed == nil {
			failed = filelock.Try(f)
			_ = f.Close()
		}
		if failed == nil {
			return err
		}
		if ctx.Err() != nil || !sleep(ctx, dialPause) {
			return errors.Join(err, fmt.Errorf("the keeper of %s does not end: %w", l.dataDir, failed))
		}
	}
	return err
}
