package sequence

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A chunkScheme says what the tags of the rows of a chunk are: a tag is type*number of marks + mark, and a tag at the end of all is outside of chunks.
type chunkScheme struct {
	marks                       int64
	begin, inside, last, single int64 // the number of a mark, -1 where the scheme has none
}

// chunkSchemes are those of Fluid: one mark, the Begin and Inside of a chunk, its Inside and End, and all of these with Single.
var chunkSchemes = map[string]chunkScheme{
	"plain": {1, -1, -1, -1, -1},
	"IOB":   {2, 0, 1, -1, -1},
	"IOE":   {2, -1, 0, 1, -1},
	"IOBES": {4, 0, 1, 2, 3},
}

const mostChunkTypes = 1 << 20

func init() {
	counts := []string{"NumInferChunks", "NumLabelChunks", "NumCorrectChunks"}
	def := ops.Def{
		Type: "chunk_eval",
		Doc: "Counts chunks, runs of rows of one type, that a model has found in sequences: precision is the share of those found that are right, recall the " +
			"share of the true ones that are found, F1 is 2*precision*recall/(precision + recall), and 0/0 is 0. A chunk is right if its rows and its type are. A tag " +
			"is type*marks + mark: plain has one mark; IOB marks the begin 0 and the inside 1; IOE the inside 0 and the end 1; IOBES begin, inside, end and " +
			"single 0 to 3. A tag of num_chunk_types*marks or more is outside of chunks. No gradient flows through it.",
		Inputs: []ops.Slot{
			{Name: "Inference", Doc: "int64 [rows, 1], sequences of tags; or [sequences, longest] with SeqLength"},
			{Name: "Label", Doc: "as Inference: the true tags"},
			{Name: "SeqLength", Doc: "int64, the rows of each sequence that count; without it the LoD says so", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Precision", Doc: "float32 [1]"}, {Name: "Recall", Doc: "float32 [1]"}, {Name: "F1-Score", Doc: "float32 [1]"}},
		Attrs: []ops.Attr{
			{Name: "num_chunk_types", Doc: "number of types of chunks, at least 1", Kind: int32(0)},
			{Name: "chunk_scheme", Doc: "plain, IOB, IOE or IOBES", Default: "IOB", Check: func(op *program.Op) error {
				if name, _ := op.Str("chunk_scheme"); chunkSchemes[name].marks == 0 {
					return fault.New(fault.InvalidArgument, "plain, IOB, IOE or IOBES")
				}
				return nil
			}},
			{Name: "excluded_chunk_types", Doc: "types that do not count", Default: []int32{}}},
		Infer: func(s *ops.Shapes) error {
			if err := checkChunks(s); err != nil {
				return err
			}
			for _, slot := range []string{"Precision", "Recall", "F1-Score"} {
				s.Set(slot, tensor.Float32, 1)
			}
			for _, slot := range counts {
				s.Set(slot, tensor.Int64, 1)
			}
			return nil
		},
		Cost:      opkit.PerElement(10),
		Bind:      bindChunks,
		MixesRows: opkit.Mixes,
		Totals:    counts,
		Exempt:    map[ops.Check]string{ops.CheckLaw: "it counts over all sequences of a batch, so a trainer with some of them counts others; no loss depends on its numbers"},
	}
	for _, slot := range counts {
		def.Outputs = append(def.Outputs, ops.Slot{Name: slot, Doc: "int64 [1]", Dispensable: true})
	}
	ops.Register(def)
}

func checkChunks(s *ops.Shapes) error {
	for _, slot := range []string{"Inference", "Label", "SeqLength"} {
		if !s.Has(slot) {
			continue
		}
		if err := opkit.CheckType(s, slot, s.In(slot).DType == tensor.Int64, "int64"); err != nil {
			return err
		}
	}
	x := s.In("Inference").Dims
	if len(x) < 1 || !ops.Compatible(s.In("Label").Dims, x) {
		return s.Errorf("Label", "dims %v, those of Inference", x)
	}
	if types := s.Int("num_chunk_types"); types < 1 || types > mostChunkTypes {
		return opkit.BadAttr(s, "num_chunk_types", "1 to %d", mostChunkTypes)
	}
	if !s.Has("SeqLength") {
		if !ops.Compatible(x[1:], ones(len(x)-1)) {
			return s.Errorf("Inference", "one column")
		}
		_, err := s.CountSequences("Inference")
		return err
	}
	length := s.In("SeqLength").Dims
	if len(x) < 2 || !ops.Compatible(x[2:], ones(len(x)-2)) {
		return s.Errorf("Inference", "dims [sequences, longest], with SeqLength")
	}
	if len(length) < 1 || !opkit.Agree(length[0], x[0]) || !ops.Compatible(length[1:], ones(len(length)-1)) {
		return s.Errorf("SeqLength", "one number for each sequence of Inference %v", x)
	}
	return nil
}

// A chunkReader finds the chunks of a sequence of tags, from its first row on.
type chunkReader struct {
	chunkScheme
	types    int64
	excluded []int32
}

// A chunk is the rows [from, to) of a type.
type chunk struct {
	from, to int
	kind     int64
}

// next returns the first chunk that begins at row at or later. ok is false if there is none. A chunk ends where the next one begins, at a row outside
// of chunks, and where its mark says so; a row whose mark continues a chunk begins one if nothing is there to continue.
func (r *chunkReader) next(tags []int64, at int) (c chunk, ok bool) {
	for ; at < len(tags); at++ {
		if kind, _ := r.split(tags[at]); kind < r.types {
			break
		}
	}
	if at == len(tags) {
		return chunk{}, false
	}
	kind, mark := r.split(tags[at])
	c = chunk{at, at + 1, kind}
	for ; c.to < len(tags) && !r.ends(mark); c.to++ {
		following, next := r.split(tags[c.to])
		if following != kind || r.begins(next) {
			break
		}
		mark = next
	}
	return c, true
}

// split returns type and mark of a tag; the type outside of chunks is types.
func (r *chunkReader) split(tag int64) (kind, mark int64) {
	if tag < 0 || tag/r.marks >= r.types {
		return r.types, -1
	}
	return tag / r.marks, tag % r.marks
}

func (r *chunkReader) begins(mark int64) bool { return mark == r.begin || mark == r.single }

func (r *chunkReader) ends(mark int64) bool { return mark == r.last || mark == r.single }

func (r *chunkReader) counts(c chunk) bool { return !slices.Contains(r.excluded, int32(c.kind)) }

// compare counts the chunks of a sequence: found ones, true ones, and those that are both.
func (r *chunkReader) compare(found, truth []int64) (n [3]int64) {
	f, more := r.next(found, 0)
	l, most := r.next(truth, 0)
	for more || most {
		switch {
		case more && (!most || f.from < l.from):
			n[0] += one(r.counts(f))
			f, more = r.next(found, f.to)
		case most && (!more || l.from < f.from):
			n[1] += one(r.counts(l))
			l, most = r.next(truth, l.to)
		default:
			n[0], n[1], n[2] = n[0]+one(r.counts(f)), n[1]+one(r.counts(l)), n[2]+one(f == l && r.counts(f))
			f, more = r.next(found, f.to)
			l, most = r.next(truth, l.to)
		}
	}
	return n
}

func one(counts bool) int64 {
	if counts {
		return 1
	}
	return 0
}

func bindChunks(b *ops.Binding) (ops.Kernel, error) {
	p := spansIn(b, "Inference", "SeqLength")
	r := &chunkReader{chunkSchemes[b.Str("chunk_scheme")], b.Int("num_chunk_types"), nil}
	for _, kind := range b.Ints("excluded_chunk_types") {
		r.excluded = append(r.excluded, int32(kind))
	}
	label := b.In("Label")
	precision, recall, f1 := b.Out("Precision"), b.Out("Recall"), b.Out("F1-Score")
	totals := []*tensor.Tensor{b.Out("NumInferChunks"), b.Out("NumLabelChunks"), b.Out("NumCorrectChunks")}
	return b.Loops(ops.Loop{N: 1, Apart: true, Whole: []string{"Inference", "Label", "SeqLength"}, Run: func(int, int, int) error {
		starts, err := p.starts()
		if err != nil {
			return err
		}
		var sum [3]int64
		for i := range p.n {
			from, to, err := p.span(starts, i)
			if err != nil {
				return err
			}
			for j, n := range r.compare(p.value.Int64s()[from:to], label.Int64s()[from:to]) {
				sum[j] += n
			}
		}
		put := func(t *tensor.Tensor, of, by int64) {
			if t != nil {
				t.Float32s()[0] = 0
				if of > 0 {
					t.Float32s()[0] = float32(float64(of) / float64(by))
				}
			}
		}
		put(precision, sum[2], sum[0])
		put(recall, sum[2], sum[1])
		put(f1, 2*sum[2], sum[0]+sum[1])
		for i, t := range totals {
			if t != nil {
				t.Int64s()[0] = sum[i]
			}
		}
		return nil
	}})
}
