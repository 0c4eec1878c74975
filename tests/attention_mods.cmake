# Users' texts in attention: score_mod, mask_mod and what they read.
tunesmith_test(attention_mods_test LIBRARIES tunesmith_api
  SOURCES attention_mods.cpp attention_mods_c_test.cpp attention_mods_errors_test.cpp attention_mods_fields_test.cpp
          attention_mods_test.cpp softmax_cases.cpp
  TIMEOUT 900)
tunesmith_test(attention_mods_cli_test LIBRARIES tunesmith_cli_parts
  SOURCES attention_mods.cpp attention_mods_cli_test.cpp attention_mods_prewarm_test.cpp cli_process.cpp)
add_dependencies(attention_mods_cli_test tunesmith_cli tunesmith_shipped)
# What a mask_mod leaves of tiles.
tunesmith_test(attention_mask_tiles_test LIBRARIES tunesmith_api
  SOURCES attention_mask_scan_test.cpp attention_mask_tiles_test.cpp attention_masks.cpp attention_mods.cpp softmax_cases.cpp
  TIMEOUT 900)
