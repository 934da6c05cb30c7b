package edlcmd

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/view"
	"github.com/spf13/cobra"
)

// callTime bounds a question to a listener.
const callTime = 10 * time.Second

// findFlags say which listener is meant.
type findFlags struct {
	listener  string
	namespace string // in which a job is whose name does not say it; empty: default, and of jobs without a name each
}

func (f *findFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.listener, "listener", "", "`ADDR` of the listener, or several, separated by commas, of one that others wait for (default: the one that runs on this machine)")
}

// addNamespace adds the flag that says in which namespace a job is. does says what the command does there.
func (f *findFlags) addNamespace(cmd *cobra.Command, does string) {
	cmd.Flags().StringVar(&f.namespace, "namespace", "", does)
}

// inNamespace is what --namespace says of a command that names one job.
const inNamespace = "look in the namespace `NAME` of the listener (default: the one that JOB names, as in ads.digits, else default, or the only one that you may see)"

// open connects to the listener that has a job, which may be empty. Without --listener it is looked for among those of this machine.
func (f *findFlags) open(ctx context.Context, name string) (*remote.Client, error) {
	if f.listener != "" {
		if err := checkAddresses("--listener", f.listener); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		client, err := remote.Attach(ctx, f.listener)
		return client, unanswered(nil, err)
	}
	clients, err := listed(ctx)
	if err != nil {
		return nil, err
	}
	if len(clients) > 1 && name != "" {
		clients = having(ctx, clients, name)
	}
	switch len(clients) {
	case 1:
		return clients[0], nil
	case 0:
		want := "--listener ADDR"
		if name != "" {
			return nil, fault.E(fault.NotFound, fault.Got("no listener on this machine that has job "+fault.Quote(name)), fault.Want(want),
				fault.Hint("if it has ended, start \"edl listen\" again as before: it takes over the jobs of its data folder"))
		}
		return nil, fault.E(fault.NotFound, fault.Got("no listener on this machine"), fault.Want(want),
			fault.Hint("\"edl run --remote\" and \"edl listen\" start one"))
	}
	var addresses []string
	for _, c := range clients {
		addresses = append(addresses, c.Address())
		c.Close()
	}
	return nil, fault.E(fault.InvalidArgument, fault.Got("several listeners on this machine: "+strings.Join(addresses, ", ")),
		fault.Want("--listener ADDR"))
}

// having closes the clients whose listeners do not have a job, and returns the others.
func having(ctx context.Context, clients []*remote.Client, name string) (have []*remote.Client) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	for _, c := range clients {
		if _, err := c.Status(ctx, name); err != nil {
			c.Close()
			continue
		}
		have = append(have, c)
	}
	return have
}

// idOf is the id of the job that a user means with a name.
func (f *findFlags) idOf(name string) string {
	if strings.Contains(name, jobspec.Separator) {
		return name
	}
	return jobspec.ID(f.namespace, name)
}

// openJob connects to the listener of a job and returns the job's name. Without a name the job is the only one that runs; where none
// runs, the one that was started last.
func (f *findFlags) openJob(ctx context.Context, args []string) (*remote.Client, string, error) {
	name := ""
	if len(args) > 0 {
		name = f.idOf(args[0])
	}
	client, err := f.open(ctx, name)
	if err != nil || name != "" {
		return client, name, err
	}
	if name, err = unnamedJob(ctx, client, f.namespace); err != nil {
		client.Close()
		return nil, "", err
	}
	return client, name, nil
}

// unnamedJob is the job that a command without a name means.
func unnamedJob(ctx context.Context, client *remote.Client, namespace string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	jobs, err := remote.FindJobs(ctx, client, remote.JobFilter{Namespace: namespace})
	if err != nil {
		return "", err
	}
	var running []string
	for _, j := range jobs {
		if !view.Ended(j) {
			running = append(running, j.Job)
		}
	}
	where := "listener " + client.Address()
	switch {
	case len(jobs) == 0:
		return "", fault.E(fault.NotFound, fault.At(where), fault.Got("no job"))
	case len(running) == 0:
		return jobs[len(jobs)-1].Job, nil
	case len(running) == 1:
		return running[0], nil
	}
	return "", fault.E(fault.InvalidArgument, fault.At(where), fault.Got("several jobs that run: "+strings.Join(running, ", ")),
		fault.Want("the name of one"))
}

// Listeners of this user on this machine are listed in a directory, one file each, so that commands find them. A file proves nothing: whoever
// reads it asks the listener, and one that refuses is gone.

// findTime bounds the wait for the listeners that are listed.
const findTime = 5 * time.Second

// maxListed bounds what is read of the directory: entries, and bytes of each.
const (
	maxListed      = 100
	maxListedBytes = 4 << 10
)

// A listedListener is the content of a file.
type listedListener struct {
	Address string `json:"address"`
	PID     int    `json:"pid"`
}

// listenersDir is where the files are: what the system clears when the user logs out, else the user's cache.
func listenersDir() (string, error) {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		var err error
		if dir, err = os.UserCacheDir(); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "edl", "listeners"), nil
}

// announce lists a listener of this process, and returns what takes it off the list. A machine without a place for the list has none:
// --listener still works.
func announce(address string) (withdraw func()) {
	dir, err := listenersDir()
	if err != nil || os.MkdirAll(dir, 0o700) != nil {
		return func() {}
	}
	b, err := json.Marshal(listedListener{address, os.Getpid()})
	if err != nil {
		return func() {}
	}
	path := listedFile(dir, address)
	temporary := path + ".new"
	if os.WriteFile(temporary, b, 0o600) != nil || os.Rename(temporary, path) != nil {
		_ = os.Remove(temporary)
		return func() {}
	}
	return func() { _ = os.Remove(path) }
}

// listedFile is the file of a listener.
func listedFile(dir, address string) string {
	return filepath.Join(dir, strings.NewReplacer(":", "_", "/", "_").Replace(address)+".json")
}

// isAnnounced reports whether a listener of this user is listed with an address, and its process is there.
func isAnnounced(address string) bool {
	dir, err := listenersDir()
	if err != nil {
		return false
	}
	entry, ok := readListed(listedFile(dir, address))
	return ok && entry.Address == address && !processGone(entry.PID)
}

// silentListener is the error of one that is listed, takes connections, and does not answer.
func silentListener(l listedListener) error {
	return fault.E(fault.Unavailable, fault.At("listener "+l.Address), fault.Gotf("no answer of process %d, which is there", l.PID), fault.Want("one that answers"),
		fault.Hint("it is paused, hangs, or has too much to do: look at its log"))
}

// takesConnections reports whether something listens at an address, also if it is paused.
func takesConnections(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		_ = conn.Close() // nothing was said
	}
	return !errors.Is(err, syscall.ECONNREFUSED)
}

// listed returns the listeners that answer. Files of those that refuse are removed, when the process that wrote them is gone. Without one that answers, the error is that of one that is there.
func listed(ctx context.Context) (clients []*remote.Client, err error) {
	dir, err := listenersDir()
	if err != nil {
		return nil, nil
	}
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fileFault(dir, err)
	}
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	var mu sync.Mutex
	var refused, silent error
	var group sync.WaitGroup
	for _, file := range files[:min(len(files), maxListed)] {
		path := filepath.Join(dir, file.Name())
		entry, ok := readListed(path)
		if !ok {
			continue
		}
		group.Go(func() {
			client, err := remote.Attach(ctx, entry.Address)
			if err != nil {
				away := errors.Is(err, fault.Unavailable) || errors.Is(err, fault.DeadlineExceeded) || errors.Is(err, fault.Canceled)
				gone := processGone(entry.PID)
				if errors.Is(err, fault.Unavailable) && gone {
					_ = os.Remove(path)
				}
				there := away && !gone && takesConnections(entry.Address)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case !away:
					refused = err
				case there:
					silent = silentListener(entry)
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			clients = append(clients, client)
		})
	}
	group.Wait()
	if len(clients) == 0 && refused != nil { // this user's credentials are wrong, or those of a listener
		return nil, refused
	}
	if len(clients) == 0 && silent != nil {
		return nil, silent
	}
	slices.SortFunc(clients, func(a, b *remote.Client) int { return strings.Compare(a.Address(), b.Address()) })
	return clients, nil
}

func readListed(path string) (entry listedListener, ok bool) {
	if filepath.Ext(path) != ".json" {
		return entry, false
	}
	f, err := os.Open(path)
	if err != nil {
		return entry, false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxListedBytes))
	return entry, err == nil && json.Unmarshal(b, &entry) == nil && entry.Address != ""
}

// processGone reports whether no process has an id.
func processGone(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return true
	}
	return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}
