package operation

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"syscall/js"
)

// Serve gives the operations to the worker that runs this module, as globalThis.dptrain with the
// functions answer, split and merge. They take and return JSON. It does not return.
func Serve(t Table) {
	debug.SetGCPercent(200)
	call := func(f func(args []js.Value) ([]byte, error)) js.Func {
		return js.FuncOf(func(_ js.Value, args []js.Value) (result any) {
			defer func() {
				if r := recover(); r != nil {
					result = failure(fmt.Sprint(r))
				}
			}()
			text, err := f(args)
			if err != nil {
				return failure(err.Error())
			}
			return map[string]any{"value": string(text)}
		})
	}
	js.Global().Set("dptrain", map[string]any{
		"answer": call(func(args []js.Value) ([]byte, error) {
			return t.Answer(args[0].String(), []byte(args[1].String()), func(p any) {
				if text, err := json.Marshal(p); err == nil {
					args[2].Invoke(string(text))
				}
			})
		}),
		"split": call(func(args []js.Value) ([]byte, error) {
			return t.Split(args[0].String(), []byte(args[1].String()), args[2].Int())
		}),
		"merge": call(func(args []js.Value) ([]byte, error) {
			return t.Merge(args[0].String(), []byte(args[1].String()))
		}),
	})
	js.Global().Call("dptrainReady")
	select {}
}

func failure(why string) map[string]any { return map[string]any{"error": why} }
