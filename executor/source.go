package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A BatchSource delivers the batches of a run, over all its passes. A local run reads them from files; a trainer of a
// distributed job reads what a coordinator assigns to it.
type BatchSource interface {
	// Next returns the next batch, or io.EOF after the last one. The batch is valid until Next is called again, and that happens only when
	// its step has ended well. When ctx ends, Next returns promptly.
	Next(ctx context.Context) (*Batch, error)
}

// A Batch is what one step trains.
type Batch struct {
	Tensors    []*tensor.Tensor // one for each variable of ReadVariables; unused when Step.Rows is 0
	Step       ops.Step         // which step it is, and which rows are in Tensors
	GlobalRows int64            // rows of the step over all trainers
	Pass       int
	Records    []dataset.Range // where the rows come from, in row order

	// Feed, where it is not nil, stands for Tensors in a program that is fed. Such a batch may have other dims than the one before, and names in Fetch
	// what its step reports, in place of TrainOptions.Fetch.
	Feed  Feed
	Fetch []string
}

// ReadOp returns the op through which p reads its own data.
func ReadOp(p *program.Program) (*program.Op, error) {
	read, err := reader.ReadOp(p.Global())
	if err != nil {
		return nil, err
	}
	if read == nil {
		return nil, fault.E(fault.InvalidProgram, fault.Got("a program without a read op"), fault.Want("a program that reads its own data"),
			fault.Hint("read a dataset with layers.OpenDataset, or feed it: with Run in Go, with --data and --batch-size in the command edl"))
	}
	return read, nil
}

// ReadVariables returns the variables that the read op of p fills, in order.
func ReadVariables(p *program.Program) ([]string, error) {
	read, err := ReadOp(p)
	if err != nil {
		return nil, err
	}
	return read.Outputs["Out"], nil
}

// check compares a batch with what a program reads.
func (b *Batch) check(variables []string) error {
	if len(b.Tensors) != len(variables) {
		return fault.E(fault.Internal, fault.Gotf("a batch of %d tensors", len(b.Tensors)),
			fault.Wantf("%d, one for each variable that is read", len(variables)))
	}
	return nil
}

// A Reader makes batches of record files as the read op of a program describes it.
type Reader struct {
	pipeline reader.Pipeline
	data     *dataset.Dataset
	batcher  *dataset.Batcher
}

// OpenReader opens the dataset that p reads. data binds dataset names to globs of record files, as dataset.Open takes them, and must name what
// p reads and nothing else; the files hold at least one record.
func OpenReader(ctx context.Context, p *program.Program, data map[string][]string) (*Reader, error) {
	r, err := NewReader(p, data, nil)
	if err != nil {
		return nil, err
	}
	globs := data[r.pipeline.Dataset]
	if err := checkGlobs(r.pipeline.Dataset, globs); err != nil {
		return nil, err
	}
	if r.data, err = dataset.Open(ctx, globs); err != nil {
		return nil, err
	}
	if r.data.NumRecords() == 0 {
		return nil, errors.Join(fault.E(fault.NotFound, fault.At("dataset "+fault.Quote(r.pipeline.Dataset)),
			fault.Got("no records in "+strings.Join(globs, ", ")), fault.Want("at least one")), r.Close())
	}
	return r, nil
}

// NewReader returns a reader of a dataset that may be empty and grow. data is what OpenReader takes; only its names matter.
func NewReader(p *program.Program, data map[string][]string, d *dataset.Dataset) (*Reader, error) {
	read, err := ReadOp(p)
	if err != nil {
		return nil, err
	}
	pipeline, err := reader.PipelineOf(p.Global(), read)
	if err != nil {
		return nil, err
	}
	if err := checkBound(read, pipeline.Dataset, data); err != nil {
		return nil, err
	}
	fields := make([]dataset.Field, len(pipeline.Fields))
	for i, f := range pipeline.Fields {
		fields[i] = dataset.Field{Name: f.Name, DType: f.DType, Dims: f.Dims, LoDLevel: f.LoDLevel}
	}
	var paired []dataset.Paired
	for _, pair := range ops.PairedSequences(p) {
		place := func(name string) int {
			return slices.IndexFunc(fields, func(f dataset.Field) bool { return f.Name == name && f.LoDLevel > 0 })
		}
		if a, b := place(pair.A), place(pair.B); a >= 0 && b >= 0 {
			by := "op " + pair.By.Type
			if line := pair.By.Line(); line != "" {
				by = line + ": " + by
			}
			paired = append(paired, dataset.Paired{A: a, B: b, LevelsA: pair.LevelsA, LevelsB: pair.LevelsB, By: by})
		}
	}
	slots := 1
	if pipeline.Prefetch > 0 {
		slots = pipeline.Prefetch + 2
	}
	batcher, err := dataset.NewBatcher(dataset.BatchOptions{Fields: fields, Rows: pipeline.Batch, DropLast: pipeline.DropLast, Slots: slots, Paired: paired})
	if err != nil {
		return nil, err
	}
	return &Reader{pipeline: pipeline, data: d, batcher: batcher}, nil
}

// Dataset returns the name of the dataset in the program, and its files.
func (r *Reader) Dataset() (string, *dataset.Dataset) { return r.pipeline.Dataset, r.data }

// Passes is how often the program reads the dataset.
func (r *Reader) Passes() int { return r.pipeline.Passes }

// Rows is the size of a global batch.
func (r *Reader) Rows() int { return r.pipeline.Batch }

// ShuffleBuffer is how many records are shuffled at a time, 0 for none: a record is delivered at most so many records late.
func (r *Reader) ShuffleBuffer() int { return r.pipeline.ShuffleBuffer }

// Shuffle permutes records as the program says. pass makes each pass a different permutation.
func (r *Reader) Shuffle(records iter.Seq2[dataset.Record, error], pass int) iter.Seq2[dataset.Record, error] {
	return dataset.Shuffle(records, r.shuffling(pass))
}

func (r *Reader) shuffling(pass int) dataset.Shuffling {
	return dataset.Shuffling{Buffer: r.pipeline.ShuffleBuffer, Group: r.pipeline.ShuffleGroup, Seed: uint64(r.pipeline.ShuffleSeed), Pass: uint64(pass)}
}

// Batches decodes a part of each batch of records, ahead of their use where the program says so. One iteration may run at a time.
func (r *Reader) Batches(ctx context.Context, records iter.Seq2[dataset.Record, error], part dataset.Part) iter.Seq2[*dataset.Batch, error] {
	return r.prefetched(ctx, r.batcher.Batches(records, part))
}

// prefetched makes batches ahead of their use where the program says so.
func (r *Reader) prefetched(ctx context.Context, batches iter.Seq2[*dataset.Batch, error]) iter.Seq2[*dataset.Batch, error] {
	if r.pipeline.Prefetch > 0 {
		return dataset.Prefetch(ctx, batches, r.pipeline.Prefetch)
	}
	return batches
}

// Close ends the connections to the buckets of the dataset. Iterations must have ended.
func (r *Reader) Close() error { return r.data.Close() }

// NumRecords returns how many records one pass reads.
func (r *Reader) NumRecords() int64 { return r.data.NumRecords() }

// String names the dataset.
func (r *Reader) String() string {
	return fmt.Sprintf("dataset %s of %d records", fault.Quote(r.pipeline.Dataset), r.data.NumRecords())
}

// checkBound compares the dataset that a program reads with those that the run binds.
func checkBound(read *program.Op, name string, data map[string][]string) error {
	bound := strings.Join(slices.Sorted(maps.Keys(data)), ", ")
	if _, ok := data[name]; !ok {
		if bound == "" {
			bound = "none"
		}
		return ops.At(read, fault.E(fault.NotFound, fault.Got("no files for the dataset "+fault.Quote(name)+" (bound: "+bound+")"),
			fault.Want("globs of record files"), fault.Hint("bind it with --data "+name+"=GLOB, or in TrainOptions.Data")))
	}
	if len(data) > 1 {
		return fault.E(fault.InvalidArgument, fault.Got("files for the datasets "+bound),
			fault.Want("only "+fault.Quote(name)+", which the program reads"))
	}
	return nil
}

// checkGlobs refuses a dataset without files.
func checkGlobs(name string, globs []string) error {
	got := ""
	switch {
	case len(globs) == 0:
		got = "no globs"
	case slices.Contains(globs, ""):
		got = "an empty glob"
	default:
		return nil
	}
	return fault.E(fault.InvalidArgument, fault.At("dataset "+fault.Quote(name)), fault.Got(got), fault.Want("globs of record files"))
}

// FileSource is the BatchSource of a local run: it reads whole files, pass after pass.
type FileSource struct {
	*Reader
	hash   string // of the reader
	passes int    // to read

	first int                                  // pass
	pass  int                                  // of the next batch
	left  ranges.Set                           // records of the pass, without those in skip
	skip  string                               // Progress.Trained
	batch uint64                               // number of the next batch in its pass
	until uint64                               // the first batch that is not delivered; 0: there is none
	round uint64                               // of the next batch
	next  func() (*dataset.Batch, error, bool) // of the pass that is open, else nil
	stop  func()
	out   Batch
}

// OpenFiles opens the dataset that p reads, as OpenReader does. passes is how often it is read; 0 leaves that to the program. The caller
// ends the source with Close.
func OpenFiles(ctx context.Context, p *program.Program, data map[string][]string, passes int) (*FileSource, error) {
	if err := CheckPasses(passes); err != nil {
		return nil, err
	}
	r, err := OpenReader(ctx, p, data)
	if err != nil {
		return nil, err
	}
	if passes == 0 {
		passes = r.pipeline.Passes
	}
	s := &FileSource{Reader: r, hash: ReaderHash(p), passes: passes}
	s.begin(0, "")
	return s, nil
}

// GoOn lets the source begin at the position of a state in the data, before the first call of Next. The rest of that pass counts as the first. A pass that
// has no batches left is not begun: the position is then the first batch of the next pass.
func (s *FileSource) GoOn(from Progress) {
	s.begin(from.Pass, from.Trained)
	s.batch, s.round = from.Batch, from.Steps
	if s.atEnd() {
		s.begin(s.pass+1, "")
	}
	s.first = s.pass
}

// Only lets the source deliver the batches of the first pass from one number to another, without the last, and then io.EOF. The number of a batch is that of its
// step. It may be called again, also between two batches, so that several processes divide a pass that one would run: the batches are the same.
func (s *FileSource) Only(from, to uint64) {
	s.leave()
	s.begin(0, "")
	s.first, s.batch, s.round, s.until = 0, from, from, to
}

// BatchesPerPass is how many batches a pass has.
func (s *FileSource) BatchesPerPass() uint64 { return s.batchesPerPass() }

// Position returns where a run goes on with the next batch, after so many steps. Behind the last batch of a pass that is the first of the next pass.
func (s *FileSource) Position(steps uint64) Progress {
	p := Progress{Steps: steps, Pass: s.pass, Batch: s.batch, Reader: s.hash, Trained: s.skip}
	if s.atEnd() {
		p.Pass, p.Batch, p.Trained = s.pass+1, 0, ""
	}
	return p
}

// atEnd reports whether the pass has begun and has no more batches.
func (s *FileSource) atEnd() bool {
	return (s.batch > 0 || s.skip != "") && s.batch >= s.batchesPerPass()
}

// begin goes to the first batch of a pass that leaves out records.
func (s *FileSource) begin(pass int, skip string) {
	out, _ := ranges.OfText(skip, math.MaxInt64)
	s.pass, s.batch, s.skip, s.left = pass, 0, skip, ranges.Set{{From: 0, To: s.NumRecords()}}.Without(out)
}

// Done returns how many records of the pass lie before the next batch, or are left out.
func (s *FileSource) Done() int64 {
	return s.NumRecords() - s.left.Count() + int64(s.batch)*int64(s.Rows())
}

// Left returns how many records of the pass are in the batches from the next one on.
func (s *FileSource) Left() int64 {
	records := s.left.Count()
	if s.pipeline.DropLast {
		records -= records % int64(s.Rows())
	}
	return records - int64(s.batch)*int64(s.Rows())
}

func (s *FileSource) batchesPerPass() uint64 {
	records, rows := uint64(s.left.Count()), uint64(s.Rows())
	if s.pipeline.DropLast {
		return records / rows
	}
	return (records + rows - 1) / rows
}

// Next implements BatchSource.
func (s *FileSource) Next(ctx context.Context) (*Batch, error) {
	for s.pass-s.first < s.passes {
		if s.until > 0 && s.batch >= s.until {
			s.leave()
			return nil, io.EOF
		}
		if s.next == nil {
			s.next, s.stop = iter.Pull2(s.batches(ctx))
		}
		b, err, ok := s.next()
		if err != nil {
			return nil, err
		}
		if ok {
			return s.deliver(b), nil
		}
		s.leave()
		s.begin(s.pass+1, "")
	}
	return nil, io.EOF
}

// batches is the pipeline of one pass, or of the rest of it.
func (s *FileSource) batches(ctx context.Context) iter.Seq2[*dataset.Batch, error] {
	return s.Segment(ctx, Segment{Pass: s.pass, First: int64(s.batch), Open: func(from int64) iter.Seq2[dataset.Record, error] {
		return func(yield func(dataset.Record, error) bool) {
			for _, r := range s.left.At(ranges.Set{{From: from, To: math.MaxInt64}}) {
				for record, err := range s.data.Records(ctx, r.From, r.To) {
					if !yield(record, err) {
						return
					}
				}
			}
		}
	}})
}

func (s *FileSource) deliver(b *dataset.Batch) *Batch {
	s.out = Batch{Tensors: b.Tensors, GlobalRows: int64(b.GlobalRows), Pass: s.pass, Records: b.Records,
		Step: ops.Step{Round: s.round, RowOffset: int64(b.RowOffset), Rows: int64(b.Rows)}}
	s.round++
	s.batch++
	return &s.out
}

// Close ends what the source has started.
func (s *FileSource) Close() {
	s.leave()
	s.Reader.Close() // an error of a driver does not make what was read wrong
}

// leave ends the pass that is open.
func (s *FileSource) leave() {
	if s.stop != nil {
		s.stop()
	}
	s.next, s.stop = nil, nil
}

// A Segment is one run over a stream of records: it is shuffled as the program says and divided into batches, which are numbered from 0. The stream is
// given in one of two forms, by Open or by Order and Read; both yield the same batches.
type Segment struct {
	Pass  int          // makes the order of each pass another one
	Part  dataset.Part // what is decoded of each batch
	First int64        // number of the first batch that is wanted

	// Open yields the records of the stream from a position on, and none where that is not before the end of the stream. It is called once, with
	// the position of the first record that is needed. All records from there on are read.
	Open func(from int64) iter.Seq2[dataset.Record, error]

	// Order and Read are those of a dataset.Selection: only the records of Part are read. Every reader that a program can describe today has this form: its
	// records come from files, each record is one row or one sequence, and a shuffle depends only on positions. A stream that is not known by numbers needs
	// Open: records that Go code makes.
	Order func(from int64) iter.Seq2[[]dataset.Range, error]
	Read  func(list []dataset.Range) iter.Seq2[dataset.Record, error]

	// Decoded is told of each batch of Order and Read that is read ahead, on the goroutine that reads ahead, before the batch is delivered. place counts from the first
	// that is wanted. It must not keep the batch. May be nil.
	Decoded func(place int64, b *dataset.Batch)
}

// Segment yields the batches of s from number s.First on: those that a run from the first batch would yield, whatever the parts. With Open it reads
// records of earlier batches only where they share the shuffle buffer of later ones, and does not decode them. One iteration may run at a time, of
// Segment or Batches.
func (r *Reader) Segment(ctx context.Context, s Segment) iter.Seq2[*dataset.Batch, error] {
	rows := int64(r.pipeline.Batch)
	if s.First < 0 || s.First > math.MaxInt64/rows {
		return func(yield func(*dataset.Batch, error) bool) {
			yield(nil, fault.E(fault.InvalidArgument, fault.At(r.String()), fault.Gotf("first batch %d", s.First),
				fault.Wantf("0 to %d", math.MaxInt64/rows)))
		}
	}
	if s.Open != nil {
		return r.Batches(ctx, dataset.ShuffleFrom(s.First*rows, s.Open, r.shuffling(int(s.Pass))), s.Part)
	}
	batches := r.batcher.Select(dataset.Selection{Part: s.Part, First: s.First, Shuffling: r.shuffling(int(s.Pass)), Order: s.Order, Read: s.Read})
	if s.Decoded != nil && r.pipeline.Prefetch > 0 {
		batches = told(batches, s.Decoded)
	}
	return r.prefetched(ctx, batches)
}

// told tells of each batch before it yields it.
func told(batches iter.Seq2[*dataset.Batch, error], each func(place int64, b *dataset.Batch)) iter.Seq2[*dataset.Batch, error] {
	return func(yield func(*dataset.Batch, error) bool) {
		place := int64(0)
		for b, err := range batches {
			if err == nil {
				each(place, b)
				place++
			}
			if !yield(b, err) {
				return
			}
		}
	}
}
