package listen

import (
	"cmp"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/jobspec"
)

// Bounds of the states that a listener holds at a time where its Config says nothing.
const (
	defaultStates     = 100
	defaultStateBytes = 64 << 30
	staleAfter        = 24 * time.Hour // since a state was last used. It is released before the listener refuses another one
)

// A states holds the kept states of a listener: what an executor leaves there from one job to the next. Each has an id, and a directory with one file
// for each variable, as executor.SavePersistables writes it, and the Progress file.
//
//	write (an upload) or expect (before a job), then keep (after it)  ->  held
//	held -> use (a job starts with it, or a call reads it) -> held
//	held -> release (by the executor, or because it is stale and room is needed) -> removed after its last use
//
// The directories are removed with the listener. A listener that was killed leaves them; the next one that works in the same parent directory removes
// them, since the lock of the dead listener is free. Those of a listener whose jobs outlive it are lasting: the next one holds them (lasting.go).
type states struct {
	parent   string // of the listener's directory; empty: the one for temporary files
	lasting  bool
	maxCount int
	maxBytes int64

	mu     sync.Mutex
	root   string // made with the first state
	unlock func() // of root
	log    *slog.Logger
	held   map[string]*keptState // by id, which is one of the namespace of the state, as jobspec.NamespaceOf reads it
	coming map[*expected]bool    // of jobs that run; each has its place
	closed bool
}

// A keptState is one state. The mutex of its states guards it.
type keptState struct {
	dir      string
	owner    string // the user whose it is
	bytes    int64
	users    int  // jobs that start with it, and calls that read it
	pending  bool // a job writes it
	released bool
	used     time.Time
	check    func() error // compares its files with the note of an earlier listener; nil: this one has kept it
	unnamed  *time.Timer  // removes an upload that no call has named; nil: one has, or its sender does not confirm
	content  uint32       // of such an upload, for its note
}

func newStates(parent string, lasting bool, count int, bytes int64, log *slog.Logger) *states {
	return &states{parent: parent, lasting: lasting, log: log, maxCount: cmp.Or(count, defaultStates), maxBytes: cmp.Or(bytes, defaultStateBytes), held: map[string]*keptState{},
		coming: map[*expected]bool{}}
}

// close removes every state. No job may use one any more.
func (s *states) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	stopTimers(s)
	clear(s.held)
	if s.root == "" {
		return nil
	}
	err := os.RemoveAll(s.root)
	if s.unlock != nil {
		s.unlock()
	}
	s.root = ""
	return fault.Wrap(fault.Unavailable, "kept states", err)
}

// newDir makes the directory of a new state. s.mu is held.
func (s *states) newDir() (string, error) {
	if s.closed {
		return "", fault.New(fault.Unavailable, "the listener is closing")
	}
	if s.root == "" && s.lasting {
		if err := os.MkdirAll(lastingRoot(s), 0o700); err != nil {
			return "", fault.File(fault.Unavailable, lastingRoot(s), err)
		}
		s.root = lastingRoot(s)
	}
	if s.root == "" {
		parent := cmp.Or(s.parent, os.TempDir())
		removeLeftStates(parent)
		root, unlock, err := lockedDir(parent)
		if err != nil {
			return "", fault.Wrap(fault.Unavailable, "kept states in "+parent, err)
		}
		s.root, s.unlock = root, unlock
	}
	dir := filepath.Join(s.root, rand.Text())
	return dir, fault.Wrap(fault.Unavailable, "kept states", os.Mkdir(dir, 0o700))
}

// places is how many states there are, when all jobs that run have left theirs: in all, and in a namespace. The state of a job takes the place of the one that the job starts with,
// which its executor releases then. s.mu is held.
func (s *states) places(namespace string) (all, within int) {
	count := func(id string) {
		if all++; jobspec.NamespaceOf(id) == namespace {
			within++
		}
	}
	for id := range s.held {
		count(id)
	}
	replaced := map[string]bool{}
	for e := range s.coming {
		if s.held[e.from] == nil || replaced[e.from] {
			count(e.id)
		}
		replaced[e.from] = true
	}
	return all, within
}

// admit makes room for a number of states in a namespace and bytes more, or says that there is none. Stale states of other namespaces give way only to bytes, and where there are
// too many namespaces. s.mu is held.
func (s *states) admit(namespace string, places int, more int64) error {
	bytes := more
	for _, k := range s.held {
		bytes += k.bytes
	}
	for {
		all, within := s.places(namespace)
		full := within+places > s.maxCount
		if !full && all+places <= maxNamespaces*s.maxCount && bytes <= s.maxBytes {
			return nil
		}
		oldest := ""
		for id, k := range s.held {
			stale := k.users == 0 && !k.pending && time.Since(k.used) > staleAfter && (!full || jobspec.NamespaceOf(id) == namespace)
			if stale && (oldest == "" || k.used.Before(s.held[oldest].used)) {
				oldest = id
			}
		}
		if oldest == "" {
			return fault.E(fault.TooLarge, fault.At("listener"),
				fault.Gotf("%d kept states in the namespace %s, and %d bytes in all, with those of jobs that run, and one more of %d", within, namespace, bytes-more, more),
				fault.Wantf("at most %d states of each namespace, and %d bytes together", s.maxCount, s.maxBytes),
				fault.Hintf("close executors that are not needed any more; the listener gives up a state that nobody has used for %v", staleAfter))
		}
		bytes -= s.held[oldest].bytes
		s.held[oldest].released = true
		s.removeUnused(oldest)
	}
}

// removeUnused removes a released state if it is not in use. s.mu is held.
func (s *states) removeUnused(id string) {
	if k := s.held[id]; k != nil && k.released && k.users == 0 {
		if k.unnamed != nil {
			k.unnamed.Stop()
		}
		delete(s.held, id)
		s.remove(k.dir)
	}
}

// mayUse refuses the state of another user. One in a namespace that the caller does not see, or that is not the one of a job, is one that is not there.
func (s *states) mayUse(by caller, id, namespace string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, within := s.held[id], jobspec.NamespaceOf(id)
	switch {
	case k == nil:
		return nil // use says so
	case !by.sees(within) || namespace != "" && namespace != within:
		return noState(id)
	}
	return by.mayAct(within, k.owner, "state "+id)
}

func noState(id string) error {
	return fault.E(fault.NotFound, fault.Got("state "+fault.Quote(id)), fault.Want("a state that the listener holds"),
		fault.Hint("a listener that was started again, or has needed the room, does not hold it any more"))
}

// use returns the directory of a state, which stays until done is called. The first use of a state of an earlier listener reads all its files.
func (s *states) use(id string) (dir string, done func(), err error) {
	k, done, err := hold(s, id)
	if err != nil {
		return "", nil, err
	}
	if k.check != nil {
		err = k.check()
	}
	if err == nil {
		return k.dir, done, nil
	}
	s.mu.Lock()
	if !k.released && errors.Is(err, fault.Corrupt) {
		k.released = true
		s.log.Error("a state that an earlier listener has kept is damaged, and is removed", "state", id, "error", err)
	}
	s.mu.Unlock()
	done()
	return "", nil, err
}

// hold is use without a look at the files.
func hold(s *states, id string) (k *keptState, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k = s.held[id]
	if k == nil || k.pending || k.released {
		return nil, nil, noState(id)
	}
	k.users++
	named(s, id, k)
	s.touch(k)
	return k, sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		k.users--
		if s.held[id] == k {
			s.removeUnused(id)
		} else if k.users == 0 { // its successor has its id
			s.remove(k.dir)
		}
	}), nil
}

// release removes a state, after its last use.
func (s *states) release(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.held[id]
	if k == nil || k.pending || k.released {
		return noState(id)
	}
	k.released = true
	s.removeUnused(id)
	return nil
}

// An expected state is one that a job will write into dir. Its end is keep or drop.
type expected struct {
	states *states
	owner  string
	id     string
	from   string // the state that the job starts with; empty: none
	dir    string
	base   string // directory of from
}

// expect makes room for the state that a job will leave under an id, which no state has but the one that the job starts with. The place is that of the
// job until keep or drop. Its bytes are not known before keep.
func (s *states) expect(owner, id, from, base string) (*expected, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[id] != nil && id != from {
		return nil, fault.E(fault.InvalidArgument, fault.At("job "+id), fault.Got("a name under which the listener holds a state of an earlier job"),
			fault.Want("another name"), fault.Hint("or close the executor that has run that job"))
	}
	places := 1
	if s.held[from] != nil && !s.replaced(from) {
		places = 0
	}
	if err := s.admit(jobspec.NamespaceOf(id), places, 0); err != nil {
		return nil, err
	}
	dir, err := s.newDir()
	e := &expected{states: s, owner: owner, id: id, from: from, dir: dir, base: base}
	if err == nil {
		s.coming[e] = true
	}
	return e, err
}

// replaced reports whether a job that runs will leave a state in the place of another. s.mu is held.
func (s *states) replaced(id string) bool {
	for e := range s.coming {
		if e.from == id {
			return true
		}
	}
	return false
}

// keep makes the state that a job has written into dir a kept one, and returns its Progress. Variables that only the state has with which the job
// started, because they belong to other programs, become part of it.
func (e *expected) keep() (p executor.Progress, err error) {
	defer func() {
		if err != nil {
			e.drop()
		}
	}()
	p, found, err := executor.ReadProgress(e.dir)
	if err == nil && !found {
		err = fault.E(fault.NotFound, fault.At("state of job "+e.id), fault.Got("no "+executor.ProgressFile), fault.Want("the state of a job that has ended well"),
			fault.Hint("trainers on other machines keep states in a directory that the listener shares with them"))
	}
	if err == nil && e.base != "" {
		err = carryOver(e.dir, e.base)
	}
	var bytes int64
	if err == nil {
		bytes, err = sizeOf(e.dir)
	}
	var content uint32
	if err == nil {
		content, err = contentOf(e.states, e.dir)
	}
	if err != nil {
		return p, err
	}
	e.states.mu.Lock()
	defer e.states.mu.Unlock()
	delete(e.states.coming, e)
	_ = e.states.admit(jobspec.NamespaceOf(e.id), 0, bytes) // releases stale ones; a job that has trained does not fail because others are large
	before := e.states.held[e.id]
	e.states.held[e.id] = &keptState{dir: e.dir, owner: e.owner, bytes: bytes, used: time.Now()}
	if err := e.states.note(e.id, content); err != nil {
		e.states.log.Warn("the state that a job has left would end with this listener: it cannot be noted now", "job", e.id, "error", err)
	}
	if before != nil && before.users == 0 && before.dir != e.dir {
		e.states.remove(before.dir)
	}
	return p, nil
}

// drop removes what a job has written that has not ended well.
func (e *expected) drop() {
	e.states.mu.Lock()
	delete(e.states.coming, e)
	e.states.mu.Unlock()
	_ = os.RemoveAll(e.dir)
}

// carryOver links the variables of base that dir does not have into dir.
func carryOver(dir, base string) error {
	return eachVariable(base, func(name string, _ int64) error {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return fault.Wrap(fault.Unavailable, to, err)
		}
		err := os.Link(filepath.Join(base, filepath.FromSlash(name)), to)
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return fault.Wrap(fault.Unavailable, to, err)
	})
}

func sizeOf(dir string) (bytes int64, err error) {
	err = eachVariable(dir, func(_ string, size int64) error { bytes += size; return nil })
	return bytes, err
}

// eachVariable calls do with the name of every variable in the directory of a state, and the size of its file.
func eachVariable(dir string, do func(name string, size int64) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fault.File(fault.Unavailable, dir, err)
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fault.File(fault.Unavailable, dir, err)
		case !d.Type().IsRegular() || name == executor.ProgressFile || executor.IsTemporary(name):
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return fault.File(fault.Unavailable, dir, err)
		}
		return do(name, info.Size())
	})
}
