package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
)

// writeFile makes a file of records appear in a folder at once.
func writeFile(t *testing.T, dir, name string, records int) {
	t.Helper()
	var file bytes.Buffer
	w, err := recordio.NewWriter(&file, recordio.Options{})
	for range records {
		err = errors.Join(err, w.Write([]byte("record")))
	}
	if err := errors.Join(err, w.Close(), os.WriteFile(filepath.Join(dir, name), file.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// a following job has one task for each file of the datasets, which are folders.
func following(t *testing.T, datasets ...string) (h *home, dirs map[string]string) {
	cfg := async(1)
	cfg.Follow, cfg.FollowEvery, cfg.RecordsPerTask = map[string][]string{}, time.Millisecond, 2
	dirs = map[string]string{}
	for _, name := range datasets {
		dirs[name] = t.TempDir()
		cfg.Follow[name] = []string{filepath.Join(dirs[name], "part-*")}
	}
	return newHome(t, cfg), dirs
}

// next asks for a task of a dataset that follows, as the member of generation 1.
func (s trainerCalls) next(name string, number uint64, wait bool, finished ...*rpc.Task) *rpc.GetTaskResponse {
	s.home.t.Helper()
	r, err := s.client.GetTask(s.home.t.Context(), &rpc.GetTaskRequest{Id: firstID(0, number), Dataset: name, Finished: finished, Wait: wait})
	if err != nil {
		s.home.t.Fatal(err)
	}
	return r
}

// queue returns the status of a queue once ok says that it is as it should be.
func (s running) queue(name string, ok func(*rpc.QueueStatus) bool) {
	s.home.t.Helper()
	s.status(func(r *rpc.QueuesResponse) bool {
		for _, q := range r.Queues {
			if q.Dataset == name && ok(q) {
				return true
			}
		}
		return false
	})
}

func closed(q *rpc.QueueStatus) bool { return !q.Following }

// Each of several datasets ends when its own end is marked: one early, one without any file, and one late. The job's data end with the last of them.
func TestFollowSeveral(t *testing.T) {
	h, dirs := following(t, "early", "empty", "late")
	s := h.start()
	s.joinAll(0, 0)
	writeFile(t, dirs["early"], "part-0", 2)
	early := s.next("early", 0, true).Task
	writeFile(t, dirs["early"], dataset.EndMarker, 0)
	writeFile(t, dirs["empty"], dataset.EndMarker, 0)
	s.queue("early", closed)
	s.queue("empty", closed)
	if r := s.next("early", 1, true, early); !r.EndOfData {
		t.Errorf("the early one: %v", r)
	}
	if r := s.next("empty", 2, true); !r.EndOfData {
		t.Errorf("the empty one: %v", r)
	}
	if r := s.next("late", 3, false); !r.Pending || r.EndOfData {
		t.Errorf("the late one: %v", r)
	}
	s.lose(0) // who comes back is told whether anything is left
	h.live.set(0, 200)
	if r, err := s.join(0, 200, 0); err != nil || r.DataEnded || r.Generation != 2 {
		t.Errorf("%v, %v", r, err)
	}
	writeFile(t, dirs["late"], "part-7", 2)
	writeFile(t, dirs["late"], dataset.EndMarker, 0)
	get := func(number uint64, finished ...*rpc.Task) (*rpc.GetTaskResponse, error) {
		return s.client.GetTask(t.Context(), &rpc.GetTaskRequest{Id: idOf(2, 0, number), Dataset: "late", Finished: finished, Wait: true})
	}
	r, err := get(0)
	if err != nil || r.Task.GetDataset() != "late" || r.Task.Records[0].To != 2 {
		t.Fatalf("%v, %v", r, err)
	}
	if r, err = get(1, r.Task); err != nil || !r.EndOfData {
		t.Errorf("%v, %v", r, err)
	}
	s.lose(0)
	h.live.set(0, 300)
	if r, err := s.join(0, 300, 2); err != nil || !r.DataEnded {
		t.Errorf("%v, %v", r, err)
	}
}

// A dataset that grows: files become tasks, also those that come while there is no coordinator, until the end is marked.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	cfg := async(1)
	cfg.Follow, cfg.FollowEvery, cfg.RecordsPerTask = map[string][]string{"d": {filepath.Join(dir, "part-*")}}, time.Millisecond, 2
	h := newHome(t, cfg)
	s := h.start()
	s.joinAll(0, 0)
	if r, err := s.ask(1, 0, 0); err != nil || !r.Pending {
		t.Fatal(r, err)
	}
	writeFile(t, dir, "part-0", 3)
	get := func(s running, generation, number uint64, finished ...*rpc.Task) *rpc.GetTaskResponse {
		r, err := s.client.GetTask(t.Context(), &rpc.GetTaskRequest{Id: idOf(generation, 0, number), Dataset: "d", Finished: finished, Wait: true})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if err := s.report(t.Context(), &rpc.TrainerStep{Id: firstID(0, 0), Rows: 2, GlobalRows: 2}); err != nil {
		t.Fatal(err)
	}
	first := get(s, 1, 1).Task
	if first.Records[0].To != 2 || len(first.Files) != 1 || filepath.Base(first.Files[0].Path) != "part-0" {
		t.Error(first)
	}
	s.stop()
	<-s.ended
	writeFile(t, dir, "part-1", 2)
	writeFile(t, dir, dataset.EndMarker, 0)
	s = h.start()
	if err := s.report(t.Context(), &rpc.TrainerStep{Id: firstID(0, 1), Rows: 2, GlobalRows: 2}); err != nil {
		t.Fatal(err)
	}
	second := get(s, 1, 2, first).Task
	third := get(s, 1, 3, second).Task
	if second.Records[0].To != 3 || third.Records[0].From != 3 || third.Records[0].To != 5 || filepath.Base(third.Files[0].Path) != "part-1" {
		t.Error(second, third)
	}
	if r := get(s, 1, 4, third); !r.EndOfData {
		t.Error(r)
	}
	if err := s.leave(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if steps, _, err := s.watch(t.Context()); err != nil || len(steps) != 1 || steps[0].Step != 1 {
		t.Errorf("steps %v, %v; the first was the predecessor's", steps, err)
	}
}

// A job that goes on from a checkpoint gives the files that it has read before the places that they had there, whatever their folder and their order in a list, and new
// ones the places behind. It refuses files that are changed, and misses only those of which records are left.
func TestFollowOnFromACheckpoint(t *testing.T) {
	const old = "/elsewhere/"
	for name, c := range map[string]struct {
		trained string
		change  func(t *testing.T, dir string)
		want    []string // files of the tasks in order
		fails   string
	}{
		"all are there":                  {"", nil, []string{"part-b", "part-a", "part-c"}, ""},
		"the first is trained, and gone": {"0 2", func(t *testing.T, dir string) { remove(t, dir, "part-b") }, []string{"part-a", "part-c"}, ""},
		"one is gone":                    {"0 2", func(t *testing.T, dir string) { remove(t, dir, "part-a") }, nil, "no file \"/elsewhere/part-a\""},
		"one is changed":                 {"", func(t *testing.T, dir string) { writeFile(t, dir, "part-a", 3) }, nil, "part-a\" of 3 records"},
	} {
		t.Run(name, func(t *testing.T) {
			h, dirs := following(t, "d")
			dir := dirs["d"]
			before := &rpc.Dataset{Name: "d", Grows: true, Groups: []int64{1}}
			files := dataset.NewFollower(h.cfg.Follow["d"])
			defer files.Close()
			for _, name := range []string{"part-b", "part-a"} {
				writeFile(t, dir, name, 2)
				info, err := files.Stat(t.Context(), filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				before.Files = append(before.Files, &rpc.DataFile{Path: old + name, FirstRecord: int64(2 * len(before.Files)), Records: 2, Bytes: info.Bytes, Fingerprint: info.Fingerprint})
			}
			h.cfg.Datasets, h.cfg.Begin = []*rpc.Dataset{before}, &job.Progress{Steps: 7, Trained: c.trained}
			writeFile(t, dir, "part-c", 1) // another content than that of the one that may be gone
			if c.change != nil {
				c.change(t, dir)
			}
			s := h.start()
			if c.fails != "" {
				if err := <-s.ended; !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v, want something of %s", err, c.fails)
				}
				return
			}
			writeFile(t, dir, dataset.EndMarker, 0)
			s.joinAll(0, 0)
			var got []string
			var done []*rpc.Task
			for number := uint64(0); ; number++ {
				r := s.next("d", number, true, done...)
				if r.Task == nil {
					break
				}
				got, done = append(got, filepath.Base(r.Task.Files[0].Path)), []*rpc.Task{r.Task}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the tasks have files %v, want %v", got, c.want)
			}
		})
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// heard keeps the lines of a log.
type heard struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lines.Write(b)
}

func (h *heard) count(what string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Count(h.lines.String(), what)
}

// A file that comes after the end of its dataset is left out, and named: by this coordinator, and by the next.
func TestFileAfterTheEnd(t *testing.T) {
	h, dirs := following(t, "d")
	log := &heard{}
	h.cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	s := h.start()
	s.joinAll(0, 0)
	writeFile(t, dirs["d"], "part-0", 2)
	writeFile(t, dirs["d"], dataset.EndMarker, 0)
	s.queue("d", closed)
	for lives := range 2 {
		writeFile(t, dirs["d"], "part-1", 2)
		for log.count("part-1") <= lives {
			s.queue("d", closed)
		}
		s.queue("d", func(q *rpc.QueueStatus) bool {
			if q.Records != 2 || q.Following {
				t.Errorf("the queue is %v", q)
			}
			return true
		})
		s.stop()
		<-s.ended
		s = h.start()
	}
	task := s.next("d", 0, true).Task
	if r := s.next("d", 1, true, task); !r.EndOfData {
		t.Error(r)
	}
}

// A coordinator crashes when it has seen the end, but has not written all of what was there, or not that it was the end: the next one finds the same
// files.
func TestCrashBeforeTheEndIsDurable(t *testing.T) {
	for name, refused := range map[string]func([]cluster.Change) bool{
		"the files": func(changes []cluster.Change) bool { return len(changes) > 1 },
		"the end":   func(changes []cluster.Change) bool { return len(changes) == 1 },
	} {
		t.Run(name, func(t *testing.T) {
			h, dirs := following(t, "d")
			s := h.start()
			s.joinAll(0, 0)
			tried := make(chan struct{})
			var once sync.Once
			h.store.failing(func(changes []cluster.Change) error {
				for _, c := range changes {
					if strings.HasPrefix(c.Key, "data/") && refused(changes) {
						once.Do(func() { close(tried) })
						return fault.New(fault.Unavailable, "no store")
					}
				}
				return nil
			})
			writeFile(t, dirs["d"], "part-0", 2)
			writeFile(t, dirs["d"], "part-1", 2)
			writeFile(t, dirs["d"], dataset.EndMarker, 0)
			<-tried
			s.stop()
			if err := <-s.ended; !errors.Is(err, fault.Canceled) {
				t.Error(err)
			}
			h.store.failing(nil)
			s = h.start()
			s.queue("d", func(q *rpc.QueueStatus) bool { return closed(q) && q.Records == 4 })
			first := s.next("d", 0, true).Task
			second := s.next("d", 1, true, first).Task
			if r := s.next("d", 2, true, second); !r.EndOfData {
				t.Error(r)
			}
			if err := s.leave(context.Background(), 0); err != nil {
				t.Error(err)
			}
			if err := <-s.ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// A file that was renamed is not new, whoever leads the job; a copy of it is.
func TestFollowedFileThatIsRenamed(t *testing.T) {
	h, dirs := following(t, "d")
	dir := dirs["d"]
	s := h.start()
	has := func(records int64) {
		t.Helper()
		s.queue("d", func(q *rpc.QueueStatus) bool {
			if q.Records > records {
				t.Fatalf("%d records, want %d", q.Records, records)
			}
			return q.Records == records
		})
	}
	writeFile(t, dir, "part-0", 3)
	has(3)
	if err := os.Rename(filepath.Join(dir, "part-0"), filepath.Join(dir, "part-5")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "part-1", 4)
	has(7)
	s.stop()
	<-s.ended
	s = h.start()
	writeFile(t, dir, "part-2", 5)
	has(12)
	writeFile(t, dir, "part-3", 3)
	has(15)
	writeFile(t, dir, dataset.EndMarker, 0)
	s.queue("d", closed)
	has(15)
}

// A trainer that waits for files asks again and again. It waits since the first time.
func TestAWaitForFilesBeginsOnce(t *testing.T) {
	cfg := async(1)
	cfg.Follow = map[string][]string{"d": {filepath.Join(t.TempDir(), "part-*")}}
	h := newHome(t, cfg)
	s := h.start()
	s.joinAll(0, 0)
	var since []time.Time
	for number := range uint64(2) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := s.client.GetTask(ctx, &rpc.GetTaskRequest{Id: idOf(1, 0, number), Dataset: "d", Wait: true})
			ended <- err
		}()
		s.status(func(q *rpc.QueuesResponse) bool {
			if len(q.Waits) != 1 || !strings.HasPrefix(q.Waits[0].What, "new files of dataset") {
				return false
			}
			since = append(since, q.Waits[0].Since.AsTime())
			return true
		})
		cancel()
		if err := <-ended; err == nil {
			t.Fatal("a task without a file")
		}
		s.status(func(q *rpc.QueuesResponse) bool { return len(q.Waits) == 0 })
	}
	if !since[0].Equal(since[1]) {
		t.Errorf("the wait began at %v and at %v", since[0], since[1])
	}
}
