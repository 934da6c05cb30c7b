package listen

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
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

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/eventlog"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/jobspec"
)

// A journal is what a listener writes of a job that runs, for the listener after it:
//
//	runs/NAME/job          a state.RunningJob, before anything starts
//	runs/NAME/journal.N    state.JobRecords, each before anybody hears of it; the next file begins when one is full, and the oldest ones are removed
//	runs/NAME/log          the last lines of a job that has ended
//
// A record is a frame: length and CRC-32 (IEEE) as little-endian uint32, then the message. A listener that was killed may leave a part of a last frame, which
// nobody has heard of. Nothing is synced: who loses the machine loses the roles, too.
type journal struct {
	dir string

	mu      sync.Mutex
	file    *os.File
	segment int
	bytes   int64
	broken  bool // what is written no more is not complete
}

// Bounds of a journal: bytes of a file, and how many files stay. As many events as watchers can still read fit into them.
const (
	segmentBytes = 64 << 20
	segments     = maxEventBytes/segmentBytes + 1
	maxRecord    = maxEventBytes + 64<<20
)

// Files of a job in its folder of runs.
const (
	runFile     = "job"
	journalFile = "journal."
	logFile     = "log"
)

// runFolder is where the journal of a job is.
func (d *Data) runFolder(id string) string { return filepath.Join(d.dir, "runs", id) }

// beginRun makes the journal of a job that begins.
func (d *Data) beginRun(id string, r *state.RunningJob) (*journal, error) {
	dir := d.runFolder(id)
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fault.File(fault.Unavailable, dir, err)
	}
	if err := d.writeRun(id, r); err != nil {
		return nil, err
	}
	j := &journal{dir: dir}
	return j, j.next()
}

// writeRun replaces what is written of a job before it runs.
func (d *Data) writeRun(id string, r *state.RunningJob) error {
	b, err := proto.Marshal(r)
	if err != nil {
		return fault.Wrap(fault.Internal, "job "+id, err)
	}
	path := filepath.Join(d.runFolder(id), runFile)
	if err = os.WriteFile(path+".new", b, 0o600); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fault.File(fault.Unavailable, path, err)
	}
	return nil
}

// full reports whether the next record begins a file, and so has to say everything.
func (j *journal) full() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.bytes == 0 || j.bytes >= segmentBytes
}

// write appends a record. After an error nothing is written any more: the next listener would miss what is between.
func (j *journal) write(r *state.JobRecord) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken || j.file == nil {
		return nil
	}
	b, err := appendFrame(nil, r)
	if err == nil && j.bytes >= segmentBytes {
		err = j.next()
	}
	if err == nil {
		_, err = j.file.Write(b)
		j.bytes += int64(len(b))
	}
	if err != nil {
		j.broken = true
		_ = os.Remove(filepath.Join(j.dir, runFile))
		return fault.File(fault.Unavailable, j.dir, err)
	}
	return nil
}

// next begins a file, and removes the oldest one.
func (j *journal) next() error {
	if j.file != nil {
		_ = j.file.Close()
	}
	j.segment++
	f, err := os.OpenFile(j.path(j.segment), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return fault.File(fault.Unavailable, j.dir, err)
	}
	j.file, j.bytes = f, 0
	_ = os.Remove(j.path(j.segment - segments))
	return nil
}

func (j *journal) path(segment int) string {
	return filepath.Join(j.dir, journalFile+strconv.Itoa(segment))
}

// close ends the journal. What is written later is nowhere.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		_ = j.file.Close()
		j.file = nil
	}
}

// appendFrame appends a message as a frame.
func appendFrame(b []byte, m proto.Message) ([]byte, error) {
	at := len(b)
	b, err := proto.MarshalOptions{}.MarshalAppend(append(b, make([]byte, 8)...), m)
	if err != nil {
		return nil, err
	}
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-8))
	binary.LittleEndian.PutUint32(b[at+4:], crc32.ChecksumIEEE(b[at+8:]))
	return b, nil
}

// readFrames calls each with the content of every frame of a file that is whole. It stops before the first that is not.
func readFrames(path string, each func([]byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return fault.File(fault.Unavailable, path, err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	for {
		var head [8]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return nil
		}
		size := int64(binary.LittleEndian.Uint32(head[:]))
		if size > maxRecord {
			return nil
		}
		b, err := io.ReadAll(io.LimitReader(r, size)) // which grows with what is there
		if err != nil || int64(len(b)) < size || crc32.ChecksumIEEE(b) != binary.LittleEndian.Uint32(head[4:]) {
			return nil
		}
		if err := each(b); err != nil {
			return fault.File(fault.Corrupt, path, err)
		}
	}
}

// A leftRun is a job in the data folder that an earlier listener has begun.
type leftRun struct {
	id string
	*state.RunningJob
	journal *journal // goes on in a file of its own
}

// leftRuns returns the jobs of earlier listeners, the oldest first. Folders that cannot be read are removed: their jobs have not begun.
func (d *Data) leftRuns() (list []leftRun, err error) {
	entries, err := os.ReadDir(filepath.Join(d.dir, "runs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.File(fault.Unavailable, d.dir, err)
	}
	for _, e := range entries {
		if !jobspec.IsName(e.Name()) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(d.runFolder(e.Name()), runFile))
		m := &state.RunningJob{}
		if err == nil {
			err = proto.Unmarshal(b, m)
		}
		if err != nil || m.Job.GetSpec() == nil {
			_ = os.RemoveAll(d.runFolder(e.Name()))
			continue
		}
		list = append(list, leftRun{e.Name(), m, &journal{dir: d.runFolder(e.Name())}})
	}
	slices.SortStableFunc(list, func(a, b leftRun) int { return cmp.Compare(a.BeganNs, b.BeganNs) })
	return list, nil
}

// read calls each with the records of the journal, and makes it ready to go on.
func (j *journal) read(each func(*state.JobRecord)) error {
	files, err := filepath.Glob(filepath.Join(j.dir, journalFile+"*"))
	if err != nil {
		return fault.Wrap(fault.Internal, j.dir, err)
	}
	var numbers []int
	for _, f := range files {
		if n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(f), journalFile)); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		j.segment = n
		if err := readFrames(j.path(n), func(b []byte) error {
			r := &state.JobRecord{}
			if err := proto.Unmarshal(b, r); err != nil {
				return err
			}
			each(r)
			return nil
		}); err != nil {
			return err
		}
	}
	return j.next()
}

// writeLines writes the lines of a log to a file.
func writeLines(path string, log *eventlog.Log[*rpc.LogLine]) error {
	var b []byte
	err := log.Read(context.Background(), 0, false, func(number uint64, l *rpc.LogLine) (err error) {
		b, err = appendFrame(b, &rpc.LogLine{Role: l.Role, Line: l.Line, Number: number})
		return err
	})
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		return fault.File(fault.Unavailable, path, err)
	}
	return nil
}

// readLinesOf calls each with the lines of such a file.
func readLinesOf(path string, each func(*rpc.LogLine)) error {
	return readFrames(path, func(b []byte) error {
		l := &rpc.LogLine{}
		if err := proto.Unmarshal(b, l); err != nil {
			return err
		}
		each(l)
		return nil
	})
}
