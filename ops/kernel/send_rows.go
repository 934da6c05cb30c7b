package kernel

import "github.com/edl-go/edl/tensor"

// Sends are the edges of a graph: row Src[i] of one tensor goes to row Dst[i] of another.
type Sends[I int32 | int64] struct {
	Src, Dst []I
	First    []int32 // for each edge: 1 for the first one to its row, else 0
	Counts   []int32 // for each row of the other tensor: how many edges go there
}

// Count fills First and Counts. It returns the first edge from no row of rows, or to none of Counts, and -1 if all are right. SendRows and SendRowsGrad need right ones.
func (s Sends[I]) Count(rows int) int {
	clear(s.Counts)
	for i, to := range s.Dst {
		if from := s.Src[i]; from < 0 || int64(from) >= int64(rows) || to < 0 || int64(to) >= int64(len(s.Counts)) {
			return i
		}
		s.First[i] = 0
		if s.Counts[to] == 0 {
			s.First[i] = 1
		}
		s.Counts[to]++
	}
	return -1
}

// SendRows makes the columns from to till-1 of each row of out from the rows of x that are sent to it, both of width columns: their SUM, MEAN, MAX or MIN in the order of the edges, and
// zeros where none is sent.
func SendRows[T Number, I int32 | int64](out, x []T, s Sends[I], kind string, width, from, till int) {
	for row := range s.Counts {
		clear(out[row*width+from : row*width+till])
	}
	for i, to := range s.Dst {
		receive(out[int(to)*width:][from:till], x[int(s.Src[i])*width:][from:till], s.First[i] == 1, kind)
	}
	average(out, s.Counts, kind, width, from, till)
}

// receive brings what is sent into a row, which first says is the first one there.
func receive[T Number](row, sent []T, first bool, kind string) {
	switch {
	case first:
		copy(row, sent)
	case kind == "MAX":
		for k, v := range sent {
			row[k] = max(row[k], v)
		}
	case kind == "MIN":
		for k, v := range sent {
			row[k] = min(row[k], v)
		}
	default:
		for k, v := range sent {
			row[k] += v
		}
	}
}

// average divides the columns from to till-1 of the rows of a MEAN by how many were sent there.
func average[T Number](out []T, counts []int32, kind string, width, from, till int) {
	if kind != "MEAN" {
		return
	}
	for row, n := range counts {
		if n > 1 {
			for k := row*width + from; k < row*width+till; k++ {
				out[k] /= T(n)
			}
		}
	}
}

// SendRowsGrad gives each row of dx the gradients of the rows of out that it was sent to: with MEAN divided by how many were sent there, with MAX and MIN where the element is that of
// out, which SendRows has made of x.
func SendRowsGrad[T tensor.Float, I int32 | int64](dx, x, out, dout []T, s Sends[I], kind string, width, from, till int) {
	for at := from; at < len(dx); at += width {
		clear(dx[at : at+till-from])
	}
	for i, to := range s.Dst {
		source, target := int(s.Src[i])*width, int(to)*width
		for k := from; k < till; k++ {
			g := dout[target+k]
			switch {
			case kind == "MEAN":
				g /= T(s.Counts[to])
			case kind != "SUM" && x[source+k] != out[target+k]:
				continue
			}
			dx[source+k] += g
		}
	}
}
