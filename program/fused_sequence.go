package program

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// The ops of this file are merged ops of sequences, with their projections.

func splitSequenceConv(s *splitter) bool {
	rows, sum := s.between("Out"), s.between("Out")
	s.add("sequence_conv", map[string][]string{"X": {s.in("X")}, "Filter": {s.in("Filter")}}, slots{"Out": rows}, nil, "contextLength", "contextStart", "contextStride")
	s.pair("elementwise_add", rows, s.in("Bias"), sum, nil)
	s.unary("relu", sum, s.out("Out"), nil)
	return true
}

func splitGRU(s *splitter) bool {
	x := s.between("Hidden")
	s.pair("mul", s.in("X"), s.in("WeightX"), x, nil)
	s.add("gru", map[string][]string{"Input": {x}, "H0": {s.op.In("H0")}, "Weight": {s.in("WeightH")}, "Bias": {s.op.In("Bias")}},
		slots{"Hidden": s.out("Hidden")}, nil,
		"activation", "gate_activation", "is_reverse", "origin_mode")
	return true
}

func splitLSTM(s *splitter) bool {
	x, cell := s.between("Hidden"), s.op.Out("Cell")
	if cell == "" || cell == Empty {
		cell = s.between("Hidden")
	}
	s.pair("mul", s.in("X"), s.in("WeightX"), x, nil)
	s.add("lstm", map[string][]string{"Input": {x}, "H0": {s.op.In("H0")}, "C0": {s.op.In("C0")}, "Weight": {s.in("WeightH")}, "Bias": {s.in("Bias")}},
		slots{"Hidden": s.out("Hidden"), "Cell": cell}, nil,
		"use_peepholes", "is_reverse", "gate_activation", "cell_activation", "candidate_activation")
	return true
}

// splitEmbeddingLSTM writes an LSTM whose inputs are rows of a table that has their product with the weights, and the bias of the gates. Of Bias only the peepholes count.
func splitEmbeddingLSTM(s *splitter) bool {
	weights, cell, bias := s.dims("WeightH"), s.op.Out("Cell"), s.between("Hidden")
	if s.failed || len(weights) != 2 || weights[0] < 1 || weights[0] > math.MaxInt32/8 {
		return false
	}
	if cell == "" || cell == Empty {
		cell = s.between("Hidden")
	}
	gates := int32(4 * weights[0])
	if peepholes, given := s.op.Bool("use_peepholes"); peepholes || !given {
		zeros, own := s.between("Hidden"), s.between("Hidden")
		s.add("slice", map[string][]string{"Input": {s.in("Bias")}}, slots{"Out": own}, map[string]Attr{"axes": []int32{1}, "starts": []int32{gates}, "ends": []int32{math.MaxInt32}})
		s.add("fill_constant", nil, slots{"Out": zeros}, map[string]Attr{"shape": []int32{1, gates}, "dtype": int32(tensor.Float32), "value": float32(0)})
		s.add("concat", map[string][]string{"X": {zeros, own}}, slots{"Out": bias}, map[string]Attr{"axis": int32(1)})
	} else {
		s.unary("scale", s.in("Bias"), bias, map[string]Attr{"scale": float32(0)})
	}
	rows := s.between("Hidden")
	s.add("lookup_table", map[string][]string{"W": {s.in("Embeddings")}, "Ids": {s.in("Ids")}}, slots{"Out": rows}, nil)
	s.add("lstm", map[string][]string{"Input": {rows}, "H0": {s.op.In("H0")}, "C0": {s.op.In("C0")}, "Weight": {s.in("WeightH")}, "Bias": {bias}},
		slots{"Hidden": s.out("Hidden"), "Cell": cell}, nil,
		"use_peepholes", "is_reverse", "gate_activation", "cell_activation", "candidate_activation")
	return true
}
