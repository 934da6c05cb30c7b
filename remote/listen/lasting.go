package listen

import (
	"cmp"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/state"
)

// This file is for the kept states of a listener whose jobs outlive it. They are in its data folder:
//
//	states/kept/DIR/...     the files of a state, or what a job writes of one
//	states/kept/DIR.state   a frame with a state.KeptState, once the state is kept: it says whose it is, and which files it has
//
// A directory without a note, or with other files than its note says, is no state. The next listener removes it, unless a job that it has taken over writes there. It compares names and sizes
// when it starts. It compares what the files hold when a state is first used, so that large states do not keep it from starting; a state that is damaged is told then, and is no state any more.

const (
	lastingFolder = "kept"
	lastingFile   = ".state"
	// forgottenAfter is when the next listener removes a state that nobody has used since.
	forgottenAfter = 7 * 24 * time.Hour
)

func lastingRoot(s *states) string { return filepath.Join(s.parent, lastingFolder) }

// lasts reports whether there are states for the next listener.
func (s *states) lasts() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lasting && len(s.held) > 0
}

// leave closes s, and leaves lasting states to the next listener. It removes others.
func (s *states) leave() error {
	if !s.lasting {
		return s.close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	stopTimers(s)
	return nil
}

// remove removes the directory of a state. s.mu is held. What is left goes with the directory of the listener, or by sweep.
func (s *states) remove(dir string) {
	if s.closed && s.lasting { // the next listener has it
		return
	}
	if s.lasting {
		_ = os.Remove(dir + lastingFile) // first: without it the directory is no state
	}
	_ = os.RemoveAll(dir)
}

// note writes that a state is kept, where states are lasting. content is the sum of its directory. s.mu is held.
func (s *states) note(id string, content uint32) error {
	if !s.lasting {
		return nil
	}
	k := s.held[id]
	m := &state.KeptState{Id: id, Owner: k.owner, KeptNs: time.Now().UnixNano(), Content: content, Unnamed: k.unnamed != nil}
	if err := describe(k.dir, m); err != nil {
		return fault.File(fault.Unavailable, k.dir, err)
	}
	b, err := appendFrame(nil, m)
	if err != nil {
		return err
	}
	return replaceFile(k.dir+lastingFile, b)
}

// describe notes which files the directory of a state has.
func describe(dir string, m *state.KeptState) error {
	sum := crc32.NewIEEE()
	return eachVariable(dir, func(name string, size int64) error {
		m.Files++
		m.Bytes += size
		_, err := sum.Write([]byte(name + "\x00" + strconv.FormatInt(size, 10) + "\n"))
		m.Sum = sum.Sum32()
		return err
	})
}

// contentOf is the sum of what the files of a state hold, with its Progress; 0 where states are not lasting. It reads all of them: s.mu is not held.
func contentOf(s *states, dir string) (uint32, error) {
	if !s.lasting {
		return 0, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, fault.File(fault.Unavailable, dir, err)
	}
	defer root.Close()
	sum := crc32.NewIEEE()
	add := func(name string, _ int64) error {
		f, err := root.Open(filepath.FromSlash(name))
		if err == nil {
			_, err = io.Copy(sum, f)
			_ = f.Close() // it was read
		}
		return fault.File(fault.Unavailable, filepath.Join(dir, name), err)
	}
	if err := add(executor.ProgressFile, 0); err != nil {
		return 0, err
	}
	err = eachVariable(dir, add)
	return sum.Sum32(), err
}

// undamaged returns a function that compares what the files of a state hold with its note, once.
func undamaged(s *states, dir string, m *state.KeptState) func() error {
	return sync.OnceValue(func() error {
		content, err := contentOf(s, dir)
		if err != nil || m.Content == 0 || m.Content == content {
			return err
		}
		return fault.E(fault.Corrupt, fault.At(dir), fault.Gotf("state %s with CRC-32 %08x of its files", fault.Quote(m.Id), content), fault.Wantf("%08x, as it was kept", m.Content),
			fault.Hint("the disk has changed it since: check the disk, and begin with a saved model or a checkpoint"))
	})
}

// recall holds the states that earlier listeners have left. It is called before any other is made. Of two with one id, the one that was kept last counts.
func (s *states) recall() error {
	if !s.lasting {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := os.ReadDir(lastingRoot(s))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.File(fault.Unavailable, lastingRoot(s), err)
	}
	s.root = lastingRoot(s)
	kept := map[string]int64{}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), lastingFile)
		if !ok {
			continue
		}
		dir := filepath.Join(s.root, name)
		m, used, err := readKept(dir)
		if err != nil {
			s.log.Warn("a state that an earlier listener has kept is lost", "directory", dir, "error", err)
			continue
		}
		left := unnamedFor - time.Since(time.Unix(0, m.KeptNs))
		if time.Since(used) > forgottenAfter || m.Unnamed && left <= 0 || m.KeptNs < kept[m.Id] {
			continue
		}
		kept[m.Id] = m.KeptNs
		k := &keptState{dir: dir, owner: m.Owner, bytes: m.Bytes, used: used, check: undamaged(s, dir, m), content: m.Content}
		s.held[m.Id] = k
		if m.Unnamed {
			awaitName(s, m.Id, k, min(left, unnamedFor)) // a clock may have been set back
		}
	}
	return nil
}

// readKept reads the note of a state and the time of its last use. It checks that the state has the files that the note says.
func readKept(dir string) (m *state.KeptState, used time.Time, err error) {
	err = readFrames(dir+lastingFile, func(b []byte) error {
		m = &state.KeptState{}
		return proto.Unmarshal(b, m)
	})
	corrupt := func(got string) error {
		return fault.E(fault.Corrupt, fault.At(dir), fault.Got(got), fault.Want("a state as it was kept"))
	}
	switch {
	case err != nil:
		return nil, used, err
	case m.GetId() == "":
		return nil, used, corrupt("a note that is cut off")
	}
	if _, found, err := executor.ReadProgress(dir); err != nil || !found {
		return nil, used, cmp.Or(err, corrupt("no "+executor.ProgressFile))
	}
	there := &state.KeptState{Id: m.Id, Owner: m.Owner, KeptNs: m.KeptNs, Content: m.Content, Unnamed: m.Unnamed}
	if err := describe(dir, there); err != nil {
		return nil, used, err
	}
	if !proto.Equal(m, there) {
		return nil, used, corrupt(strconv.FormatInt(there.Files, 10) + " files of " + strconv.FormatInt(there.Bytes, 10) + " bytes, which are others")
	}
	info, err := os.Stat(dir + lastingFile)
	if err != nil {
		return nil, used, fault.File(fault.Unavailable, dir, err)
	}
	return m, info.ModTime(), nil
}

// touch notes that a state was used. s.mu is held. If the time cannot be written, the next listener may forget the state sooner.
func (s *states) touch(k *keptState) {
	k.used = time.Now()
	if s.lasting {
		_ = os.Chtimes(k.dir+lastingFile, k.used, k.used)
	}
}

// inherit takes over the states of a job of an earlier listener: the one that the job begins with, and the directory keep, in which it leaves one.
func (s *states) inherit(b *jobState, owner, id string, spec *job.JobSpec, keep string) (err error) {
	base := ""
	if spec.State != "" {
		if base, b.done, err = s.use(spec.State); err != nil {
			return err
		}
	}
	if !spec.KeepState {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.root = lastingRoot(s)
	b.keep = &expected{states: s, owner: owner, id: id, from: spec.State, dir: keep, base: base}
	s.coming[b.keep] = true
	return nil
}

// sweep removes directories that no state and no job has. It is called when all jobs of earlier listeners are taken over, and before any other begins.
func (s *states) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lasting || s.root == "" {
		return
	}
	used := map[string]bool{}
	for _, k := range s.held {
		used[k.dir] = true
	}
	for e := range s.coming {
		used[e.dir] = true
	}
	entries, _ := os.ReadDir(s.root)             // what cannot be read is left
	for _, e := range slices.Backward(entries) { // notes before directories
		path := filepath.Join(s.root, e.Name())
		if used[path] || used[strings.TrimSuffix(path, lastingFile)] {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			s.log.Warn("files of a state that nobody has are left", "path", path, "error", err)
		}
	}
}
