# Functions for the agents of scenarios.yaml: they write the events of a program's stream to standard output.

subtype=success is_error=false terminal_reason=completed stop_reason=end_turn denials= session=s1

start() {
    [ -z "$started" ] || return 0
    started=1
    printf '{"type":"system","subtype":"init","session_id":"%s","model":"m","claude_code_version":"1","skills":[]}\n' "$session"
}
say() {
    start
    printf '{"type":"assistant","message":{"content":[{"type":"text","text":"%s"}]}}\n' "$1"
}
# call NAME ARGUMENTS [RESULT [FAILED]]
call() {
    start
    made=$((made + 1))
    printf '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"%s","name":"%s","input":%s}]}}\n' "$made" "$1" "$2"
    printf '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"%s","content":"%s","is_error":%s}]}}\n' "$made" "$3" "${4:-false}"
}
end() {
    start
    printf '{"type":"result","subtype":"%s","is_error":%s,"terminal_reason":"%s","stop_reason":"%s","permission_denials":[%s],"result":"%s","session_id":"%s","usage":{"input_tokens":10,"output_tokens":5},"total_cost_usd":0.01}\n' \
        "$subtype" "$is_error" "$terminal_reason" "$stop_reason" "$denials" "$1" "$session"
}
codex_end() {
    printf '{"type":"thread.started","thread_id":"%s"}\n' "$session"
    printf '{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"%s"}}\n' "$1"
    printf '{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":0,"output_tokens":5}}\n'
}
# copilot_end TEXT [EXIT_CODE [FINISH_REASON]]
copilot_end() {
    mkdir -p "$COPILOT_HOME/session-state/$session"
    printf '{"type":"session.usage_record","data":{"usage":{"inputTokens":10,"outputTokens":5,"finishReason":"%s"}}}\n' "${3:-stop}" \
        >> "$COPILOT_HOME/session-state/$session/events.jsonl"
    printf '{"type":"assistant.message","data":{"content":"%s"}}\n' "$1"
    printf '{"type":"result","sessionId":"%s","exitCode":%s}\n' "$session" "${2:-0}"
}
fix() {
    echo 'refund() { echo yes; }' > src/refund.sh
}
# Whether this is the given trial or an earlier one.
attempt() {
    number=1
    while ! mkdir "$SCENARIO/attempts/$number" 2> /dev/null; do number=$((number + 1)); done
    [ "$number" -le "$1" ]
}
