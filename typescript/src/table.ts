// What is known of language models: a copy of proxy/models.json, which a test compares.
export const TABLE = {
  "date": "2026-11-29",
  "sources": [
    "https://platform.openai.com/docs/guides/rate-limits",
    "https://platform.openai.com/docs/guides/images-vision",
    "https://platform.claude.com/docs/en/api/rate-limits",
    "https://platform.claude.com/docs/en/build-with-claude/prompt-caching",
    "https://platform.claude.com/docs/en/build-with-claude/vision",
    "https://ai.google.dev/gemini-api/docs/tokens",
    "https://docs.aws.amazon.com/bedrock/latest/userguide/quotas-token-burndown.html",
    "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_TokenUsage.html"
  ],
  "paths": {
    "free": ["/count_tokens", "/input_tokens", ":countTokens", "/threads/*/messages"],
    "embeds": ["/embeddings", ":embedContent", ":batchEmbedContents", "/v2/embed", "/api/embed"],
    "generates": [
      "/chat/completions", "/completions", "/responses", "/messages", "/complete", "/interactions",
      ":generateContent", ":streamGenerateContent", "/converse", "/converse-stream", "/invoke",
      "/invoke-with-response-stream", "/v2/chat", "/api/chat", "/api/generate", "/generate"
    ],
    "model_behind": ["/models/", "/model/", "/deployments/"]
  },
  "output": {
    "default": 1024,
    "most": [
      "max_completion_tokens", "max_output_tokens", "max_tokens", "max_tokens_to_sample", "max_new_tokens",
      "generationConfig.maxOutputTokens", "generation_config.max_output_tokens", "inferenceConfig.maxTokens"
    ],
    "answers": [
      "n", "best_of", "generationConfig.candidateCount", "generation_config.candidate_count",
      "generationConfig.candidate_count", "generation_config.candidateCount"
    ],
    "prompts": "prompt"
  },
  "twelfths": {"letter": 3, "digit": 5, "punctuation": 6, "two_bytes": 8, "three_bytes": 15, "four_bytes": 24},
  "kinds": {
    "picture": {
      "signs": ["image/", "iVBOR", "/9j/", "R0lGOD"], "bytes_per_token": 1000000, "least": 1600, "most": 1600
    },
    "sound": {
      "signs": ["audio/", "video/", "SUQz", "//u", "T2dnUw"], "bytes_per_token": 250, "least": 100, "most": 200000
    },
    "document": {
      "signs": ["application/", "text/", "JVBERi0", "UEsDB"], "bytes_per_token": 25, "least": 1600, "most": 200000
    }
  },
  "attachments": {
    "source.data": "picture",
    "source.bytes": "picture",
    "inlineData.data": "picture",
    "inline_data.data": "picture",
    "input_audio.data": "sound",
    "file_data": "document",
    "file.file_data": "document"
  },
  "links": [
    "image_url", "image_url.url", "source.url", "source.file_id", "file.file_id", "fileData.fileUri",
    "file_data.file_uri", "s3Location.uri"
  ],
  "instructions": ["system", "tools", "toolConfig"],
  "messages": "messages.content",
  "usage": {
    "places": [
      "usage.billed_units", "meta.billed_units", "usage", "usageMetadata", "message.usage", "response.usage",
      "response.usageMetadata", "x_groq.usage", "interaction.usage"
    ],
    "forms": [
      {
        "input": ["prompt_tokens"],
        "output": ["completion_tokens"],
        "total": ["total_tokens"],
        "cached_within": ["prompt_tokens_details.cached_tokens"],
        "written": ["prompt_tokens_details.cache_write_tokens"]
      },
      {
        "input": ["input_tokens", "cache_creation_input_tokens"],
        "output": ["output_tokens"],
        "kept": ["cache_read_input_tokens", "cache_creation_input_tokens"],
        "cached_within": ["input_tokens_details.cached_tokens"],
        "cached_beside": ["cache_read_input_tokens"],
        "written": ["cache_creation_input_tokens", "input_tokens_details.cache_write_tokens"],
        "written_hour": ["cache_creation.ephemeral_1h_input_tokens"]
      },
      {
        "input": ["promptTokenCount", "toolUsePromptTokenCount"],
        "output": ["candidatesTokenCount", "thoughtsTokenCount"],
        "cached_within": ["cachedContentTokenCount"]
      },
      {
        "input": ["inputTokens", "cacheWriteInputTokens"],
        "output": ["outputTokens"],
        "kept": ["cacheReadInputTokens", "cacheWriteInputTokens"],
        "cached_beside": ["cacheReadInputTokens"],
        "written": ["cacheWriteInputTokens"]
      },
      {
        "input": ["total_input_tokens", "total_tool_use_tokens"],
        "output": ["total_output_tokens", "total_thought_tokens"],
        "cached_within": ["total_cached_tokens"]
      }
    ]
  }
} as const;
