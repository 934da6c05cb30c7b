package kernel

import "github.com/edl-go/edl/tensor"

// A Meeting says how rows of two sides become one: column k is the sum of columns X[k] and Y[k], or with Product their product. Several columns may have one of a side.
type Meeting struct {
	X, Y    []int64
	Product bool
}

// Meet writes the columns from to till-1 of what rows x and y become; out begins with the first of them.
func Meet[T Number](out, x, y []T, m Meeting, from, till int) {
	if m.Product {
		for k := from; k < till; k++ {
			out[k-from] = x[m.X[k]] * y[m.Y[k]]
		}
		return
	}
	for k := from; k < till; k++ {
		out[k-from] = x[m.X[k]] + y[m.Y[k]]
	}
}

// MeetGrad adds the gradients of rows x and y to dx and dy, either of which may be nil: dout is that of what they become.
func MeetGrad[T tensor.Float](dx, dy, x, y, dout []T, m Meeting) {
	for k, g := range dout {
		toX, toY := g, g
		if m.Product {
			toX, toY = g*y[m.Y[k]], g*x[m.X[k]]
		}
		if dx != nil {
			dx[m.X[k]] += toX
		}
		if dy != nil {
			dy[m.Y[k]] += toY
		}
	}
}

// SendMessages makes the columns from to till-1 of each row of out, of width columns, as SendRows does: edge i sends what row Src[i] of x and row i of y become. The rows have xWidth and
// yWidth columns. room has width elements.
func SendMessages[T Number, I int32 | int64](out, x, y, room []T, s Sends[I], m Meeting, kind string, xWidth, yWidth, from, till int) {
	width, sent := len(m.X), room[:till-from]
	for row := range s.Counts {
		clear(out[row*width+from : row*width+till])
	}
	for i, to := range s.Dst {
		Meet(sent, x[int(s.Src[i])*xWidth:][:xWidth], y[i*yWidth:][:yWidth], m, from, till)
		receive(out[int(to)*width:][from:till], sent, s.First[i] == 1, kind)
	}
	average(out, s.Counts, kind, width, from, till)
}

// SendMessagesGrad computes the gradients of x and y, either of which may be nil: of MAX and MIN where a message has the element of out, which SendMessages has made. room has two rows of out.
func SendMessagesGrad[T tensor.Float, I int32 | int64](dx, dy, x, y, out, dout, room []T, s Sends[I], m Meeting, kind string, xWidth, yWidth int) {
	width := len(m.X)
	sent, g := room[:width], room[width:][:width]
	clear(dx)
	clear(dy)
	for i, to := range s.Dst {
		copy(g, dout[int(to)*width:][:width])
		left, right := x[int(s.Src[i])*xWidth:][:xWidth], y[i*yWidth:][:yWidth]
		switch kind {
		case "MEAN":
			for k := range g {
				g[k] /= T(s.Counts[to])
			}
		case "MAX", "MIN":
			Meet(sent, left, right, m, 0, width)
			for k, v := range out[int(to)*width:][:width] {
				if sent[k] != v {
					g[k] = 0
				}
			}
		}
		MeetGrad(RowAt(dx, int(s.Src[i]), xWidth), RowAt(dy, i, yWidth), left, right, g, m)
	}
}

// RowAt returns a row of width elements, nil of none.
func RowAt[T any](rows []T, i, width int) []T {
	if rows == nil {
		return nil
	}
	return rows[i*width:][:width]
}
