package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// wholeStream yields every record of a dataset that is not in skip, from a place on, after a check: what trainers read before they read only their rows.
func wholeStream(ctx context.Context, files *taskFiles, list []ranges.Range) func(place int64) iter.Seq2[dataset.Record, error] {
	return func(place int64) iter.Seq2[dataset.Record, error] {
		n := min(place, ranges.Count(list))
		var left []ranges.Range
		for _, r := range list {
			before := min(n, r.Len())
			if n -= before; r.From+before < r.To {
				left = append(left, ranges.Range{From: r.From + before, To: r.To})
			}
		}
		return files.records(ctx, &rpc.Task{}, left)
	}
}

// describeBatch renders a batch with all its bits.
func describeBatch(tensors []*tensor.Tensor, rows, global, offset int64, records []ranges.Range) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rows from %d of %d: %v", rows, offset, global, records)
	for _, t := range tensors {
		fmt.Fprint(&b, t.Dims())
		for _, v := range t.Float32s() {
			fmt.Fprintf(&b, " %x", math.Float32bits(v))
		}
	}
	return b.String()
}

// Trainers that read only their rows train the batches that they would cut from the whole: bit for bit, and with the same records to declare. Files,
// chunks, batches, shuffles, gaps, numbers of trainers and the round to begin with are any.
func TestOwnRowsAreThoseOfTheWhole(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 5))
			pick := func(list ...int) int { return list[chance.IntN(len(list))] }
			records, batch, trainers := 1+chance.IntN(150), 1+chance.IntN(40), pick(1, 2, 3, 5, 8)
			data := anyFiles(t, chance, records)
			model := shuffling(t, batch, pick(1, 2, 7, 20, 64, 500))
			var gaps []ranges.Range
			for range chance.IntN(4) {
				from := chance.Int64N(int64(records))
				gaps = append(gaps, ranges.Range{From: from, To: from + chance.Int64N(30)})
			}
			skip := ranges.Of(gaps...)
			first := uint64(chance.IntN(1 + records/batch))
			segment := &rpc.Segment{FirstRound: 3, Skip: wire.Ranges(skip)}

			got := make([][]string, trainers)
			j := newReadingJob(t, model, data, queue.Policy{Sync: true, Passes: 1, Trainers: trainers})
			ctx := bounded(t)
			var all []uint32
			for rank := range trainers {
				all = append(all, uint32(rank))
			}
			began := make(chan error, 1)
			go func() { began <- j.regroup(ctx, all...) }()
			err := pstest.Parallel(trainers, func(rank int) error {
				g, err := j.join(ctx, uint32(rank))
				if err != nil {
					return err
				}
				g.in.Round, g.in.Segment = 3+first, segment
				s, err := j.source(ctx, g)
				if err != nil {
					return err
				}
				defer s.Close()
				for {
					b, err := s.Next(ctx)
					if errors.Is(err, io.EOF) {
						return nil
					}
					if err != nil {
						return err
					}
					got[rank] = append(got[rank], describeBatch(b.Tensors, b.Step.Rows, b.GlobalRows, b.Step.RowOffset, b.Records))
				}
			})
			if err := errors.Join(err, <-began); err != nil {
				t.Fatal(err)
			}
			reader, err := executor.OpenReader(ctx, model.Program, data)
			if err != nil {
				t.Fatal(err)
			}
			_, opened := reader.Dataset()
			list := ranges.Subtract([]ranges.Range{{From: 0, To: int64(records)}}, skip)
			for rank := range trainers {
				var want []string
				for b, err := range reader.Segment(ctx, executor.Segment{Part: dataset.Part{Index: rank, Of: trainers}, First: int64(first),
					Open: wholeStream(ctx, &taskFiles{data: opened}, list)}) {
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, describeBatch(b.Tensors, int64(b.Rows), int64(b.GlobalRows), int64(b.RowOffset), b.Records))
				}
				if !slices.Equal(got[rank], want) {
					t.Errorf("trainer %d of %d reads\n%s\nwant\n%s", rank, trainers, strings.Join(got[rank], "\n"), strings.Join(want, "\n"))
				}
			}
		})
	}
}

// anyFiles writes samples into files of any number, size of chunks and compressor.
func anyFiles(t testing.TB, chance *rand.Rand, records int) map[string][]string {
	t.Helper()
	dir, files := t.TempDir(), 1+chance.IntN(4)
	w, err := dataset.CreateShards(dir, testkit.Dataset, files, recordio.Options{ChunkRecords: 1 + chance.IntN(15),
		Compressor: recordio.Compressor(chance.IntN(3)), Layout: recordio.Layout(chance.IntN(2))})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for i := range records {
		if err := w.Write(dataset.AppendRecord(nil, testkit.Random(t, tensor.Float32, uint64(i), testkit.Width), testkit.Random(t, tensor.Float32, uint64(i), 1))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return map[string][]string{testkit.Dataset: {filepath.Join(dir, testkit.Dataset+"-*")}}
}

// Where tasks name their files, a stream reads each of them as it comes, and forgets those before.
func TestStreamsReadFilesThatTasksName(t *testing.T) {
	const records = 60
	data := anyFiles(t, rand.New(rand.NewPCG(1, 4)), records)
	opened, err := dataset.Open(t.Context(), data[testkit.Dataset])
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	files := &taskFiles{data: &dataset.Dataset{}}
	defer files.close()
	read := files.reader(t.Context())
	defer read.close()
	infos := opened.Files()
	at := int64(0)
	for i, f := range infos {
		read.add([]*rpc.DataFile{{Path: f.Path, FirstRecord: f.FirstRecord, Records: f.Records, Bytes: f.Bytes, Fingerprint: f.Fingerprint}})
		to := f.FirstRecord + f.Records - 2 // the rest is read with the next file
		if i == len(infos)-1 {
			to = records
		}
		list := []ranges.Range{{From: at, To: at + 1}, {From: at + 1, To: to}}
		for record, err := range read.records(list) {
			if err != nil {
				t.Fatal(err)
			}
			for want, err := range opened.Records(t.Context(), at, at+1) {
				if err != nil || record.Number != at || string(record.Bytes) != string(want.Bytes) || record.File != want.File {
					t.Errorf("record %d of %s, want record %d of %s, error %v", record.Number, record.File, at, want.File, err)
				}
			}
			at++
		}
		if at != to || len(read.named) > 2 {
			t.Errorf("%v: read up to %d, %d files known", list, at, len(read.named))
		}
	}
	if len(infos) < 3 {
		t.Errorf("%d files", len(infos))
	}
}

// In sync mode only the trainer whose rows are damaged sees that. It reports the task, all of them begin another generation, and the data go on without the
// task when it has failed too often.
func TestOneTrainerFindsDamage(t *testing.T) {
	for name, hurt := range map[string]func(*testing.T, map[string][]string){
		"a chunk": breakChunk,
		"a record that is no sample": func(t *testing.T, data map[string][]string) {
			rewrite(t, data, 12, []byte("no tensor"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := lawCase{model: shuffling(t, 20, 1), data: testkit.Samples(t, t.TempDir(), 40), records: 40, passes: 2} // trainer 1 has 10 to 19
			spec := &job.JobSpec{Trainers: 2, Pservers: 2, Save: t.TempDir(), Fetch: []string{l.model.Loss}}
			c := newTestJob(t, l.model, l.data, spec, queue.Policy{Passes: 2, RecordsPerTask: 10, MaxFailures: 1})
			hurt(t, l.data)
			ctx := bounded(t)
			var group sync.WaitGroup
			c.coordinator.failing = func(uint64) {
				group.Go(func() {
					if err := c.coordinator.regroup(ctx, 0, 1); err != nil {
						t.Error(err)
					}
				})
			}
			err := c.train(ctx, 2)
			group.Wait()
			if err != nil {
				t.Fatal(err)
			}
			trained := make([][]ranges.Range, 2)
			for _, m := range c.coordinator.committed() {
				trained[m.Pass] = append(trained[m.Pass], wire.RangesOf(m.Records)...)
			}
			for pass, list := range trained {
				for i, n := range counts(l.records, list) {
					if want := 1; i/10 == 1 && n != 0 || i/10 != 1 && n != want {
						t.Errorf("record %d of pass %d was trained %d times", i, pass, n)
					}
				}
			}
			var by []id.Rank
			for _, m := range c.coordinator.failed {
				if by = append(by, id.Rank(m.Id.Rank)); m.Task.Id != 1 {
					t.Errorf("task %d has failed: %s", m.Task.Id, m.Reason)
				}
			}
			if !slices.Equal(by, []id.Rank{1, 1}) {
				t.Errorf("failures were reported by %v, want trainer 1 twice", by)
			}
			if q := c.coordinator.queue.Status(); q.Discarded != 1 {
				t.Errorf("at the end: %v", q)
			}
		})
	}
}

// rewrite replaces one record of a dataset, in files of the same names and chunks.
func rewrite(t *testing.T, data map[string][]string, number int64, bytes []byte) {
	t.Helper()
	opened, err := dataset.Open(t.Context(), data[testkit.Dataset])
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	var records [][]byte // in the order in which they are written
	files := opened.Files()
	for i := range files[0].Records {
		for _, f := range files {
			if i < f.Records {
				for record, err := range opened.Records(t.Context(), f.FirstRecord+i, f.FirstRecord+i+1) {
					if err != nil {
						t.Fatal(err)
					}
					b := record.Bytes
					if record.Number == number {
						b = bytes
					}
					records = append(records, slices.Clone(b))
				}
			}
		}
	}
	w, err := dataset.CreateShards(filepath.Dir(files[0].Path), testkit.Dataset, len(files), recordio.Options{ChunkRecords: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, b := range records {
		if err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkReading is what a step of a trainer reads and decodes, in batches that are divided among so many trainers. "whole" is what trainers did before
// they read only their rows. Both begin anew at the end of the data.
func BenchmarkReading(b *testing.B) {
	for _, c := range []struct {
		name        string
		width       int64
		rows, data  func(trainers int) int
		buffer      int // of a shuffle
		compression recordio.Compressor
	}{
		{"wide", 784, func(n int) int { return 128 * n }, func(n int) int { return 128 * n * max(2, 16/n) }, 0, recordio.None},
		{"small", 13, func(int) int { return 20 }, func(int) int { return 20000 }, 0, recordio.None},
		{"shuffled", 784, func(n int) int { return 128 * n }, func(n int) int { return 128 * n * max(2, 64/n) }, 2000, recordio.None},
		{"snappy", 784, func(n int) int { return 128 * n }, func(n int) int { return 128 * n * max(2, 16/n) }, 0, recordio.Snappy},
	} {
		for _, trainers := range []int{1, 2, 8, 64} {
			records := c.data(trainers)
			var files *taskFiles
			var reader *executor.Reader
			open := func(b *testing.B) {
				if reader != nil {
					return
				}
				dir := b.TempDir()
				writeWide(b, dir, c.width, records, c.compression)
				globs := map[string][]string{testkit.Dataset: {filepath.Join(dir, "*")}}
				var err error
				if reader, err = executor.OpenReader(b.Context(), readingProgram(b, c.width, c.rows(trainers), c.buffer), globs); err != nil {
					b.Fatal(err)
				}
				_, data := reader.Dataset()
				files = &taskFiles{data: data}
			}
			b.Run(fmt.Sprintf("%s/%d", c.name, trainers), func(b *testing.B) {
				open(b)
				all := []ranges.Range{{From: 0, To: int64(records)}}
				segment := executor.Segment{Part: dataset.Part{Index: trainers / 2, Of: trainers}}
				for _, path := range []string{"whole", "own"} {
					b.Run(path, func(b *testing.B) {
						b.ReportAllocs()
						ctx := b.Context()
						for n := 0; n < b.N; {
							s := segment
							read := files.reader(ctx)
							if path == "whole" {
								s.Open = wholeStream(ctx, files, all)
							} else {
								s.Read = read.records
								s.Order = func(int64) iter.Seq2[[]ranges.Range, error] { return inRuns(records, askRounds*c.rows(trainers)) }
							}
							for _, err := range reader.Segment(ctx, s) {
								if err != nil {
									b.Fatal(err)
								}
								if n++; n == b.N {
									break
								}
							}
							read.close()
						}
					})
				}
			})
		}
	}
}

// inRuns yields the numbers of records in runs, as a coordinator gives tasks.
func inRuns(records, run int) iter.Seq2[[]ranges.Range, error] {
	return func(yield func([]ranges.Range, error) bool) {
		for from := 0; from < records; from += run {
			if !yield([]ranges.Range{{From: int64(from), To: int64(min(records, from+run))}}, nil) {
				return
			}
		}
	}
}

func writeWide(b *testing.B, dir string, width int64, records int, c recordio.Compressor) {
	w, err := dataset.CreateShards(dir, "wide", 1, recordio.Options{Compressor: c})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Abort()
	record := dataset.AppendRecord(nil, testkit.Random(b, tensor.Float32, 1, width), testkit.Random(b, tensor.Float32, 2, 1))
	for range records {
		if err := w.Write(record); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

// readingProgram reads batches, and makes none ahead of its use.
func readingProgram(b *testing.B, width int64, rows, buffer int) *program.Program {
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(width)), layers.Field("y", layers.Dims(1)))
	if buffer > 0 {
		r = layers.Shuffle(r, buffer, 11)
	}
	v := layers.Read(layers.Batch(r, rows))
	return testkit.Built(b, m, layers.Mean(v[1], layers.Name("loss"))).Program
}
