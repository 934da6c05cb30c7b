package layers

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Refuse makes a table of SparseEmbedding leave new keys without a row when it is full: they read as their initial values, and are not trained. By default a
// full table ends the training with an error.
func Refuse() Option { return Option{"Refuse", func(s *settings) { s.atBound = "refuse" }} }

// EvictOldest makes a table of SparseEmbedding evict keys that no step has trained for the longest time. A region of its keys with more than 7/8 of its rows in
// use does so at the end of a step. New keys that come faster than that stay untrained as with Refuse, until there is room.
func EvictOldest() Option { return Option{"EvictOldest", func(s *settings) { s.atBound = "evict" }} }

// EvictUnseen makes a table of SparseEmbedding evict keys that no step has trained for so many steps, and at most 24th as many and 64 steps more. An evicted key
// is as one that was never trained.
func EvictUnseen(steps int64) Option {
	return Option{"EvictUnseen", func(s *settings) { s.unseen = steps }}
}

// EvictUnseenDays makes a table of SparseEmbedding evict keys that no step has trained for so many days, and at most a 24th as many more. The day of a step is that of
// the clock of the machine, or follows from its number (executor.WithDayRounds, edl run --day-rounds). On a cluster it is the same for all servers. An evicted
// key is as one that was never trained. It contradicts EvictUnseen. (Paddle 2: delete_after_unseen_days.)
func EvictUnseenDays(days int64) Option {
	return Option{"EvictUnseenDays", func(s *settings) { s.unseenDays = days }}
}

// CountFilterEntry makes a table of SparseEmbedding give a key its row in the nth step that trains it. Before, the key reads as its initial value, takes a place of
// the table, and is evicted like others. (Paddle 2: CountFilterEntry.)
func CountFilterEntry(n int64) Option {
	return Option{"CountFilterEntry", func(s *settings) { s.entry = entry("count_filter_entry:%v", n) }}
}

// ProbabilityEntry makes a table of SparseEmbedding give a key its row with a probability, in each step that trains it. Chance depends on the seed of the model, the
// name of the table, the key and the number of the step. (Paddle 2: ProbabilityEntry.)
func ProbabilityEntry(p float64) Option {
	return Option{"ProbabilityEntry", func(s *settings) { s.entry = entry("probability_entry:%v", p) }}
}

// entry is the attribute of an entry. The first step and the probability 1 let in all keys.
func entry[N int64 | float64](form string, number N) string {
	if number == 1 {
		return "none"
	}
	return fmt.Sprintf(form, number)
}

// SparseEmbedding looks up rows of a table that grows, by int64 keys [..., 1]. The result is [..., width]. A key is any int64 but -1, such as a hash of a
// string; no key needs to be known before. A key gets a row when it is first trained. The first value of the row is uniform between two bounds and follows
// from the seed of the model, the name of the table and the key. Before, and in inference, a key without a row reads as that value. -1 reads as zeros.
//
// rows bounds the table. It is rounded up to a multiple of 64, because keys are spread over 64 regions of equal size. A region of 16 rows or more takes keys for
// 15/16 of them, and may be full when the table is not, so give a third more rows than there will be keys. Only rows in use take memory, with optimizers that
// change only rows of the batch; each row that there is room for takes 4 bytes.
//
// On a cluster only pservers hold the table, and each has keys of all kinds. Layers whose Param names the same parameter share a table, and the options of the
// first count. The initializer of Param is Uniform or Constant; by default Uniform between ±1/sqrt(width). This is sparse_embedding of Paddle 2.
//
// Refuse and EvictOldest contradict each other, and so do EvictUnseen and EvictUnseenDays, and CountFilterEntry and ProbabilityEntry.
//
// Options: Param, PaddingIndex, StoreBFloat16, Combine, Refuse, EvictOldest, EvictUnseen, EvictUnseenDays, CountFilterEntry, ProbabilityEntry, Name. Ops: lookup_sparse_table, which
// makes one row of each sequence, too; with Combine for k ids those of Embedding. The optimizer adds lookup_sparse_table_insert, lookup_sparse_table_rows and, where keys may go or an entry decides, lookup_sparse_table_shrink.
func SparseEmbedding(keys Variable, rows, width int64, opts ...Option) Variable {
	l := start("sparse_embedding", opts, []string{"Param", "PaddingIndex", "StoreBFloat16", "Combine", "Refuse", "EvictOldest", "EvictUnseen", "EvictUnseenDays", "CountFilterEntry", "ProbabilityEntry"}, keys)
	if l.failed {
		return l.fail()
	}
	for _, pair := range [][2]string{{"Refuse", "EvictOldest"}, {"EvictUnseen", "EvictUnseenDays"}, {"CountFilterEntry", "ProbabilityEntry"}} {
		if given(opts, pair[0]) && given(opts, pair[1]) {
			return l.mistake(fault.E(fault.InvalidArgument, fault.Gotf("the options %s and %s, which contradict each other", pair[0], pair[1]), fault.Want("one of the two")))
		}
	}
	if keys.DType() != tensor.Int64 {
		return l.mistake(fault.E(fault.TypeMismatch, fault.Var(keys.Name()), fault.Gotf("keys %v", keys), fault.Want("int64"),
			fault.Hint("declare them with layers.DType(tensor.Int64)")))
	}
	if most := int64(kernel.MostKeyRows - kernel.KeyRegions); rows > most {
		return l.mistake(fault.E(fault.TooLarge, fault.Gotf("a table of %d rows", rows), fault.Wantf("at most %d", most)))
	}
	if rows > 0 {
		rows = (rows + kernel.KeyRegions - 1) / kernel.KeyRegions * kernel.KeyRegions
	}
	table, attrs := grownTable(l, []int64{rows, width})
	if l.failed {
		return l.fail()
	}
	attrs["padding_idx"], attrs["shape"] = l.padID, table["W"][0].Dims()
	table["Ids"] = []Variable{keys}
	sequences := keys.v.LoDLevel > 0 && len(keys.Dims()) == 2
	if l.combine != "" && sequences {
		attrs["combiner"] = l.combine
	}
	found := l.op("lookup_sparse_table", table, attrs, "Out")
	if l.combine != "" && !sequences && !l.failed {
		found = l.combined(found)
	}
	return l.result(found)
}

// grownTable declares the variables of a table that grows, or finds those of another layer. It returns them by slot, and attributes that say what rows are at
// first.
func grownTable(l *layer, dims []int64) (In, Attrs) {
	attr := l.param
	initial := attr.Initializer
	attr.Initializer = nil
	w := l.parameter("w", attr, storedAs(tensor.Float32, l.halves), dims, Constant(0))
	if l.failed {
		return nil, nil
	}
	m := l.model
	keys, shared := m.Variable(w.Name() + ".keys")
	if shared {
		for _, op := range m.main.Global().Ops {
			if op.Type == "lookup_sparse_table" && op.In("W") == w.Name() {
				index, _ := m.Variable(w.Name() + ".index")
				return In{"W": {w}, "Keys": {keys}, "Index": {index}}, initialAttrs(op)
			}
		}
	}
	if initial == nil {
		limit := 1 / math.Sqrt(float64(dims[1]))
		initial = Uniform(-limit, limit)
	}
	attrs := Attrs{"table_name": w.Name(), "seed": m.seed, "at_bound": cmp.Or(l.atBound, "error"), "entry": cmp.Or(l.entry, "none"), "evict_unseen": l.unseen,
		"evict_unseen_days": l.unseenDays}
	switch op := initial(Target{DType: tensor.Float32, Dims: dims, Seed: m.seed}); {
	case op != nil && op.Type == "uniform_random":
		attrs["min"], attrs["max"] = op.Attrs["min"], op.Attrs["max"]
	case op != nil && op.Type == "fill_constant":
		attrs["min"], attrs["max"] = op.Attrs["value"], op.Attrs["value"]
	default:
		l.mistake(fault.E(fault.Unsupported, fault.Var(w.Name()), fault.Got("another initializer of a table that grows"), fault.Want("layers.Uniform or layers.Constant")))
		return nil, nil
	}
	keys = m.State(w.Name()+".keys", tensor.Int64, dims[:1], Constant(0))
	index := m.State(w.Name()+".index", tensor.Int32, dims[:1], Constant(0))
	if !keys.OK() || !index.OK() {
		l.fail()
	}
	if strings.HasPrefix(l.entry, "count") {
		m.State(w.Name()+".counts", tensor.Int32, dims[:1], Constant(0))
	}
	if attrs["entry"] != "none" || l.unseen != 0 || l.unseenDays != 0 || l.atBound == "evict" {
		m.State(w.Name()+".rounds", tensor.Int64, []int64{1}, Constant(0))
	}
	if l.unseenDays != 0 {
		m.State(w.Name()+".hours", tensor.Int64, []int64{2}, Constant(0))
	}
	return In{"W": {w}, "Keys": {keys}, "Index": {index}}, attrs
}

// initialAttrs are the attributes of a lookup that say what the rows of its table are at first, and what happens when it is full.
func initialAttrs(lookup *program.Op) Attrs {
	attrs := Attrs{}
	for _, name := range []string{"table_name", "seed", "min", "max", "at_bound", "entry", "evict_unseen", "evict_unseen_days"} {
		if value, ok := lookup.Attrs[name]; ok {
			attrs[name] = value
		}
	}
	return attrs
}

// Hash hashes each row of int64 or int32 ids [rows, columns] to n numbers from 0 to below size. The result is [rows, n, 1], the ids of n lookups. It is Fluid's layer
// hash: XXH64 with the seeds 0 to n-1.
//
// Options: Name. Ops: hash.
func Hash(ids Variable, size int64, n int, opts ...Option) Variable {
	l := start("hash", opts, nil, ids)
	return l.result(l.op("hash", In{"X": {ids}}, Attrs{"mod_by": size, "num_hash": n}, "Out"))
}
