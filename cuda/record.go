//go:build gpu

package cuda

import "github.com/dptrain/dptrain/internal/op"

func (c *compiler) records(spec op.Spec, k call) bool { return false }
