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
//	runs/NAME/journal.N    state.JobRecords, each before anybody hears of it; each listener begins a file with what it writes first, and the next when one is full. The
//	                       oldest are removed when the others have as many bytes as watchers can read
//	runs/NAME/log          the last lines of a job that has ended
//	runs/NAME/torn         takes the place of job while records are missing, as on a full disk: the next listener cannot go on with the job
//
// The first record that can be written after missing ones says everything, and job is there again.
//
// A record is a frame: length and CRC-32 (IEEE) as little-endian uint32, then the message. A listener that was killed may leave a part of a last frame, which
// nobody has heard of. Nothing is synced: who loses the machine loses the roles, too.
type journal struct {
	dir string

	mu      sync.Mutex
	file    *os.File // nil: the next record begins one
	segment int      // its number, or that of the last one
	bytes   int64    // of file
	torn    bool     // records are missing
	closed  bool
}

// Bounds of a journal: bytes of a file, and of one record.
const (
	segmentBytes = 64 << 20
	maxRecord    = maxEventBytes + 64<<20
)

// Files of a job in its folder of runs.
const (
	runFile     = "job"
	tornFile    = "torn"
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
	return &journal{dir: dir}, nil
}

// writeRun replaces what is written of a job before it runs.
func (d *Data) writeRun(id string, r *state.RunningJob) error {
	b, err := proto.Marshal(r)
	if err != nil {
		return fault.Wrap(fault.Internal, "job "+id, err)
	}
	return replaceFile(filepath.Join(d.runFolder(id), runFile), b)
}

// full reports whether the next record begins a file, and so has to say everything.
func (j *journal) full() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file == nil || j.torn || j.bytes >= segmentBytes
}

// write appends a record. The error is that of the first of several that cannot be written; the others are missing, too, until one can.
func (j *journal) write(r *state.JobRecord) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	b, err := appendFrame(nil, r)
	begun := false
	if err == nil && (j.file == nil || j.torn || j.bytes >= segmentBytes) {
		err = j.next()
		begun = err == nil
	}
	if err == nil {
		_, err = j.file.Write(b)
		j.bytes += int64(len(b))
	}
	if err != nil && begun { // the next record tries again with this number
		_ = j.file.Close()
		_ = os.Remove(j.path(j.segment))
		j.file = nil
		j.segment--
	}
	run, torn := filepath.Join(j.dir, runFile), filepath.Join(j.dir, tornFile)
	switch {
	case err == nil && !j.torn:
		return nil
	case err == nil:
		j.torn = os.Rename(torn, run) != nil
		return nil
	case j.torn: // it has said so before
		return nil
	}
	j.torn = true
	return fault.File(fault.Unavailable, j.dir, errors.Join(err, os.Rename(run, torn)))
}

// next begins a file, and removes old ones that watchers do not need.
func (j *journal) next() error {
	if j.file != nil {
		_ = j.file.Close()
		j.file = nil
	}
	f, err := os.OpenFile(j.path(j.segment+1), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fault.File(fault.Unavailable, j.dir, err)
	}
	j.file, j.bytes = f, 0
	j.segment++
	numbers, err := j.numbers()
	for bytes := int64(0); err == nil && len(numbers) > 0; numbers = numbers[:len(numbers)-1] {
		path := j.path(numbers[len(numbers)-1])
		if bytes >= maxEventBytes {
			_ = os.Remove(path)
		} else if info, err := os.Stat(path); err == nil {
			bytes += info.Size()
		}
	}
	return err
}

func (j *journal) path(segment int) string {
	return filepath.Join(j.dir, journalFile+strconv.Itoa(segment))
}

// numbers lists the files that are there, the oldest first.
func (j *journal) numbers() (list []int, err error) {
	files, err := filepath.Glob(filepath.Join(j.dir, journalFile+"*"))
	for _, f := range files {
		if n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(f), journalFile)); err == nil {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, fault.Wrap(fault.Internal, j.dir, err)
}

// close ends the journal. What is written later is nowhere.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed = true; j.file != nil {
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

// leftRuns returns the jobs of earlier listeners, the oldest first, and those of which records are missing. Folders that cannot be read are removed: their jobs have not
// begun.
func (d *Data) leftRuns() (list, torn []leftRun, err error) {
	entries, err := os.ReadDir(filepath.Join(d.dir, "runs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fault.File(fault.Unavailable, d.dir, err)
	}
	read := func(id, file string) (leftRun, bool) {
		b, err := os.ReadFile(filepath.Join(d.runFolder(id), file))
		m := &state.RunningJob{}
		if err == nil {
			err = proto.Unmarshal(b, m)
		}
		return leftRun{id, m, &journal{dir: d.runFolder(id)}}, err == nil && m.Job.GetSpec() != nil
	}
	for _, e := range entries {
		if !jobspec.IsID(e.Name()) {
			continue
		}
		if l, ok := read(e.Name(), runFile); ok {
			list = append(list, l)
		} else if l, ok := read(e.Name(), tornFile); ok {
			torn = append(torn, l)
		} else {
			_ = os.RemoveAll(d.runFolder(e.Name()))
		}
	}
	slices.SortStableFunc(list, func(a, b leftRun) int { return cmp.Compare(a.BeganNs, b.BeganNs) })
	return list, torn, nil
}

// read calls each with the records of the journal, and makes it ready to go on in a file of its own.
func (j *journal) read(each func(*state.JobRecord)) error {
	numbers, err := j.numbers()
	if err != nil {
		return err
	}
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
	return nil
}

// writeLines writes the lines of a log to a file.
func writeLines(path string, log *eventlog.Log[*rpc.LogLine]) error {
	var b []byte
	err := log.Read(context.Background(), 0, false, func(number uint64, l *rpc.LogLine) (err error) {
		b, err = appendFrame(b, &rpc.LogLine{Role: l.Role, Line: l.Line, Number: number, Start: l.Start})
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
